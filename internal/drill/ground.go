package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/relay"
)

// nodeTimeout is how long a node must be silent until the cluster replaces it.
const nodeTimeout = time.Second

// Servers returns the options of a cluster that every [Scenario] can be done to:
// three shards with a replica each, which serve on without one of them.
func Servers(server string) rediscluster.Options {
	return rediscluster.Options{
		Server: server, Shards: 3, Replicas: 1, NodeTimeout: nodeTimeout,
		Args: []string{"--cluster-require-full-coverage", "no", "--enable-debug-command", "yes"},
	}
}

// shard is one shard of the cluster, whoever leads it.
type shard struct {
	slot    int                // one that it serves
	primary *rediscluster.Node // as far as was meant to be
}

// ground is the cluster as a run finds it. Slots stay with their shards.
type ground struct {
	cluster *rediscluster.Cluster
	proxies relay.Set // nil: clients dial the nodes
	shards  []shard
}

// survey looks at the cluster.
func survey(ctx context.Context, c *rediscluster.Cluster, proxied bool) (*ground, error) {
	g := &ground{cluster: c}
	primaries, err := c.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range primaries {
		slots, err := p.Slots(ctx)
		if err != nil {
			return nil, err
		}
		if len(slots) > 0 {
			g.shards = append(g.shards, shard{slot: slots[0], primary: p})
		}
	}
	if proxied {
		g.proxies, err = relay.StartSet(ctx, c.Addrs()...)
	}
	return g, err
}

// owners returns the number of the shard that serves each slot.
func (g *ground) owners(ctx context.Context) (*[rediscluster.Slots]int, error) {
	var table [rediscluster.Slots]int
	for i, s := range g.shards {
		slots, err := s.primary.Slots(ctx)
		if err != nil {
			return nil, err
		}
		for _, slot := range slots {
			table[slot] = i
		}
	}
	return &table, nil
}

func (g *ground) close() error { return g.proxies.Close() }

// onlyReplica returns the one replica of a primary.
func (g *ground) onlyReplica(ctx context.Context, primary *rediscluster.Node) (*rediscluster.Node, error) {
	replicas, err := g.cluster.Replicas(ctx, primary)
	if err == nil && len(replicas) != 1 {
		err = fmt.Errorf("%s has %d replicas, want one", primary.Addr(), len(replicas))
	}
	if err != nil {
		return nil, err
	}
	return replicas[0], nil
}

// errNoShard says that the cluster isn't one of [Servers].
var errNoShard = errors.New("no shard to hit")
