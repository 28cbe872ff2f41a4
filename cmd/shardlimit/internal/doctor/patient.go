package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
)

// patient is the cluster under examination.
type patient struct {
	opts   Options
	shards []redis.ClusterShard // none of a single server
	nodes  []*node
	keys   *census // of the limiter; nil before it's taken
}

// admit finds out of which nodes the cluster consists, and asks each how it is.
func admit(ctx context.Context, opts Options) (*patient, error) {
	p := &patient{opts: opts}
	if err := p.find(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	for _, n := range p.nodes {
		p.say("asking " + n.addr)
		n.ask(ctx)
	}
	if len(p.answering()) == 0 {
		return nil, errors.Join(p.silence(), p.close())
	}
	return p, nil
}

// silence returns why no node answers.
func (p *patient) silence() error {
	var all []error
	for _, n := range p.nodes {
		all = append(all, fmt.Errorf("%s: %w", n.addr, n.err))
	}
	return errors.Join(all...)
}

// find asks the nodes that are named for all others, until one answers.
func (p *patient) find(ctx context.Context) error {
	if p.opts.Single {
		p.add(p.opts.Client.Addrs[0], "", true)
		return nil
	}
	var errs []error
	for _, addr := range p.opts.Client.Addrs {
		p.say("asking " + addr + " for the cluster's nodes")
		shards, err := p.shardsBy(ctx, addr)
		if err == nil {
			p.shards = shards
			p.addShards(addr)
			return nil
		}
		if isOld(err) {
			p.addNamed()
			return nil
		}
		if strings.Contains(err.Error(), "cluster support disabled") {
			err = fmt.Errorf("%w: one server is looked at with --redis-single", err)
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
	}
	return errors.Join(errs...)
}

func (p *patient) shardsBy(ctx context.Context, addr string) ([]redis.ClusterShard, error) {
	client := redis.NewClient(connect.Node(p.opts.Client, addr))
	shards, err := client.ClusterShards(ctx).Result()
	return shards, errors.Join(err, client.Close())
}

// isOld reports whether err is what servers before Redis 7.0 say of CLUSTER
// SHARDS.
func isOld(err error) bool {
	return strings.HasPrefix(strings.ToLower(err.Error()), "err unknown subcommand")
}

// addNamed adds the nodes that are named, as nobody says which others there
// are.
func (p *patient) addNamed() {
	for _, addr := range p.opts.Client.Addrs {
		p.add(addr, "", true)
	}
}

// addShards adds the nodes of the shards, as the one at asked named them.
func (p *patient) addShards(asked string) {
	for _, shard := range p.shards {
		for _, n := range shard.Nodes {
			p.add(address(n, asked), n.ID, n.Role == "master")
		}
	}
}

// address returns where a node is dialled. One that knows no host for another
// means the host at which it was asked itself.
func address(n redis.Node, asked string) string {
	host := n.Endpoint
	if host == "" || host == "?" {
		host = n.IP
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	port := n.Port
	if n.TLSPort != 0 {
		port = n.TLSPort
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}

func (p *patient) add(addr, id string, primary bool) {
	p.nodes = append(p.nodes, &node{
		addr: addr, id: id, primary: primary, client: redis.NewClient(connect.Node(p.opts.Client, addr)),
	})
}

// answering returns the nodes that do.
func (p *patient) answering() []*node {
	return slices.DeleteFunc(slices.Clone(p.nodes), func(n *node) bool { return n.err != nil })
}

// primaries returns the primaries that answer.
func (p *patient) primaries() []*node {
	return slices.DeleteFunc(p.answering(), func(n *node) bool { return !n.primary })
}

func (p *patient) say(what string) {
	if p.opts.Progress != nil {
		p.opts.Progress(what)
	}
}

func (p *patient) close() error {
	var errs []error
	for _, n := range p.nodes {
		errs = append(errs, n.client.Close())
	}
	return errors.Join(errs...)
}

// node is one server.
type node struct {
	addr    string
	id      string
	primary bool
	client  *redis.Client

	err       error             // why it doesn't answer
	info      map[string]string // INFO
	config    map[string]string // CONFIG GET of what checks ask for
	configErr error
}

// parameters are what checks ask for of a node's configuration.
var parameters = []any{
	"config", "get", "maxmemory", "maxmemory-policy", "lazyfree-lazy-expire", "cluster-require-full-coverage",
	"min-replicas-to-write",
}

func (n *node) ask(ctx context.Context) {
	var text string
	if text, n.err = n.client.Info(ctx, "everything").Result(); n.err != nil {
		return
	}
	n.info = fields(text)
	config := redis.NewMapStringStringCmd(ctx, parameters...)
	n.configErr = n.client.Process(ctx, config)
	n.config = config.Val()
}

// fields returns the fields of INFO's text.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// number returns a field of INFO, 0 if it isn't there.
func (n *node) number(field string) int64 {
	value, _ := strconv.ParseInt(n.info[field], 10, 64)
	return value
}

// setTo returns the nodes whose parameter is as is says, and why some can't be
// asked.
func setTo(nodes []*node, parameter string, is func(value string) bool) (those []*node, err error) {
	for _, n := range nodes {
		switch value, known := n.config[parameter]; {
		case n.configErr != nil:
			return nil, fmt.Errorf("CONFIG GET at %s: %w", n.addr, n.configErr)
		case known && is(value):
			those = append(those, n)
		}
	}
	return those, nil
}

// names lists the nodes' addresses.
func names(nodes []*node) string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.addr)
	}
	return strings.Join(addrs, ", ")
}
