package stage

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/rediscluster/containers"
)

// openOwn starts a cluster.
func openOwn(ctx context.Context, o Options) (*Stage, error) {
	opts, how := o.launch()
	c, err := rediscluster.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	title := fmt.Sprintf("3 shards%s of %v, started for this%s", withReplicas(o.Replicas), c.Version(), how)
	s := &Stage{Title: title, opts: o, cluster: c}
	s.close = append(s.close, c.Close)
	return s.connect(ctx, c.Addrs(), func() *redis.Client { return s.running()[0].Client() })
}

// nodeTimeout is long enough that a machine which is busy with the traffic
// isn't taken for a dead node.
const nodeTimeout = 2 * time.Second

func withReplicas(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " with a replica each"
	default:
		return fmt.Sprintf(" with %d replicas each", n)
	}
}

// launch returns what to start, and how, where that isn't by processes.
func (o Options) launch() (_ rediscluster.Options, how string) {
	opts := rediscluster.Options{
		Server: o.Server, Replicas: o.Replicas, NodeTimeout: nodeTimeout,
		// Else a shard that is lost takes all the others along: the README's advice.
		Args: []string{"--cluster-require-full-coverage", "no"},
	}
	if o.Image != "" {
		opts.Launch = containers.Launch(o.Image)
		return opts, " in containers"
	}
	opts, contained := containers.WhereNoServer(opts, containers.Image)
	if contained {
		how = " in containers of " + containers.Image + ", as no server is installed"
	}
	return opts, how
}

// openGiven connects to a cluster, or a single server, that runs already.
func openGiven(ctx context.Context, addrs []string) (*Stage, error) {
	client := redis.NewClient(&redis.Options{Addr: addrs[0], DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true})
	s := &Stage{Title: "the Redis Cluster at " + strings.Join(addrs, ", ")}
	s.close = append(s.close, client.Close)
	info, err := client.Info(ctx, "cluster").Result()
	if err != nil {
		return s.abandon(fmt.Errorf("connect to %s: %w", addrs[0], err))
	}
	if strings.Contains(info, "cluster_enabled:1") {
		return s.connect(ctx, addrs, func() *redis.Client { return client })
	}
	s.Title = "the Redis server at " + addrs[0]
	s.Limiter, err = shardlimit.New(client, s.config())
	if err != nil {
		return s.abandon(err)
	}
	s.close = append(s.close, s.Limiter.Close)
	s.owners.single(addrs[0])
	return s, nil
}

// connect opens a limiter of the cluster at addrs, of which node returns one.
func (s *Stage) connect(ctx context.Context, addrs []string, node func() *redis.Client) (*Stage, error) {
	s.owners.node = node
	if err := s.Refresh(ctx); err != nil {
		return s.abandon(err)
	}
	var err error
	s.Limiter, err = shardlimit.Open(&redis.ClusterOptions{Addrs: addrs}, s.config())
	if err != nil {
		return s.abandon(err)
	}
	s.close = append(s.close, s.Limiter.Close)
	return s, nil
}

// config is that of a limiter which leaves the screen to the demo, and whose
// calls are counted.
func (s *Stage) config() shardlimit.Config {
	return shardlimit.Config{
		Prefix: newPrefix(), Logger: slog.New(slog.DiscardHandler),
		Observer: shardlimit.Observer{Sending: func(_ string, calls int) { s.calls.Add(int64(calls)) }},
	}
}
