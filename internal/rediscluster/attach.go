package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// ErrNotOurs says that a server was not started here, and so is not killed,
// hung, cut off or joined by another here.
var ErrNotOurs = errors.New("the server was not started by this program")

// Attach returns the cluster that runs already and that the nodes at addrs are
// part of. Its slots can be moved and its scripts flushed, as those of a
// cluster that [Start] made; verbs on its processes fail with [ErrNotOurs].
// Close leaves it as it is.
func Attach(ctx context.Context, addrs ...string) (*Cluster, error) {
	opts, err := Options{}.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("rediscluster: options: %w", err)
	}
	c := &Cluster{opts: opts, launcher: foreigners{}}
	c.close = sync.OnceValue(c.closeAll)
	if err := c.attach(ctx, addrs); err != nil {
		return nil, errors.Join(fmt.Errorf("rediscluster: attach to %s: %w", strings.Join(addrs, ", "), err), c.Close())
	}
	return c, nil
}

// attach asks the first node that answers who the others are.
func (c *Cluster) attach(ctx context.Context, addrs []string) error {
	err := errors.New("no address")
	for _, addr := range addrs {
		seed := newClient(addr, nil)
		text, failed := seed.ClusterNodes(ctx).Result()
		err = errors.Join(failed, seed.Close())
		if err == nil {
			return c.adopt(ctx, text)
		}
	}
	return err
}

// adopt makes a Node of each line of CLUSTER NODES.
func (c *Cluster) adopt(ctx context.Context, text string) error {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		m, err := parseMember(fields)
		if err != nil {
			return fmt.Errorf("CLUSTER NODES line %q: %w", line, err)
		}
		addr, _, _ := strings.Cut(fields[1], "@")
		n := &Node{server: foreigner{addr}, client: newClient(addr, nil), id: m.id}
		n.state.Store(up)
		c.nodes = append(c.nodes, n)
	}
	info, err := c.nodes[0].client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	c.launcher = foreigners{infoVersion(info)}
	return c.wait(ctx)
}

// infoVersion reads INFO's server section, in which Valkey names both its own
// version and the Redis that it answers as.
func infoVersion(info string) Version {
	name, number := "redis", field(info, "redis_version")
	if own := field(info, "valkey_version"); own != "" {
		name, number = "valkey", own
	}
	v, err := ParseVersion(name + " server v=" + number)
	if err != nil {
		return Version{Name: name}
	}
	return v
}

// foreigners launches nothing.
type foreigners struct{ is Version }

func (f foreigners) Version() Version           { return f.is }
func (foreigners) Server(Flags) (Server, error) { return nil, ErrNotOurs }
func (foreigners) Close() error                 { return nil }

// foreigner is a server that runs by itself.
type foreigner struct{ address string }

func (f foreigner) Addr() string                  { return f.address }
func (foreigner) Start(context.Context) error     { return ErrNotOurs }
func (foreigner) Exited(context.Context) error    { return nil }
func (foreigner) PID() int                        { return 0 }
func (foreigner) Kill(context.Context) error      { return ErrNotOurs }
func (foreigner) Hang(context.Context) error      { return ErrNotOurs }
func (foreigner) Resume(context.Context) error    { return ErrNotOurs }
func (foreigner) Cut(context.Context, Side) error { return ErrNotOurs }
func (foreigner) Heal(context.Context) error      { return ErrNotOurs }
