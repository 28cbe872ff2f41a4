package stage

import (
	"context"
	"fmt"
	"strings"

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
	s := &Stage{Title: fmt.Sprintf("3 shards of %v, started for this%s", c.Version(), how), cluster: c}
	s.close = append(s.close, c.Close)
	return s.connect(ctx, c.Addrs(), c.Nodes()[0].Client())
}

// launch returns what to start, and how, where that isn't by processes.
func (o Options) launch() (_ rediscluster.Options, how string) {
	opts := rediscluster.Options{Server: o.Server}
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
		return s.connect(ctx, addrs, client)
	}
	s.Title = "the Redis server at " + addrs[0]
	s.Limiter, err = shardlimit.New(client, shardlimit.Config{Prefix: newPrefix()})
	if err != nil {
		return s.abandon(err)
	}
	s.close = append(s.close, s.Limiter.Close)
	s.owners.single(addrs[0])
	return s, nil
}

// connect opens a limiter of the cluster at addrs, of which node is one.
func (s *Stage) connect(ctx context.Context, addrs []string, node *redis.Client) (*Stage, error) {
	s.owners.node = node
	if err := s.Refresh(ctx); err != nil {
		return s.abandon(err)
	}
	var err error
	s.Limiter, err = shardlimit.Open(&redis.ClusterOptions{Addrs: addrs}, shardlimit.Config{Prefix: newPrefix()})
	if err != nil {
		return s.abandon(err)
	}
	s.close = append(s.close, s.Limiter.Close)
	return s, nil
}
