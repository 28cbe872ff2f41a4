package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cluster"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// way is one way to take a unit of key i.
type way struct {
	name  string
	take  func(ctx context.Context, i int) error
	close func() error
}

// Units a second, and at once: enough that none is ever denied, which would
// cost less.
const rate, burst = 1_000_000, 1_000_000_000

// options are the same for all clients: a machine that stands still for a second
// must not end the run.
func options(servers *rediscluster.Cluster) *redis.ClusterOptions {
	return &redis.ClusterOptions{Addrs: servers.Addrs(), ReadTimeout: patience}
}

// connect returns Script.Run first, to which the others are compared.
func connect(servers *rediscluster.Cluster, keys int) ([]way, error) {
	subjects, names := make([]string, keys), make([]string, keys)
	for i := range names {
		subjects[i] = fmt.Sprintf("user:%06d", i)
		names[i] = fmt.Sprintf("rl:{%s}:api", subjects[i])
	}
	plan := scripts.NewPlan(rule.Limit{Algorithm: rule.TokenBucket, Rate: rate, Period: 1_000_000, Burst: burst})
	given, err := givenWay(servers, plan, names)
	if err != nil {
		return nil, err
	}
	limiter, err := limiterWay(servers, subjects)
	if err != nil {
		return nil, err
	}
	return []way{scriptWay(servers, plan, names), openWay(servers, plan, names), given, limiter}, nil
}

// scriptWay sends the very same script by Script.Run, through a client as it
// comes.
func scriptWay(servers *rediscluster.Cluster, plan *scripts.Plan, names []string) way {
	rdb := redis.NewClusterClient(options(servers))
	call := scripts.Call{Plan: plan, Cost: 1, Count: 1}
	script := redis.NewScript(call.Script().Text)
	args := call.AppendArgs(nil)
	return way{"Script.Run", func(ctx context.Context, i int) error {
		return script.Run(ctx, rdb, names[i:i+1], args...).Err()
	}, rdb.Close}
}

// openWay sends it through a client that shardlimit makes.
func openWay(servers *rediscluster.Cluster, plan *scripts.Plan, names []string) way {
	c := cluster.Open(options(servers), cluster.Options{Timeout: patience})
	return way{"cluster, Open", taking(c, plan, names), c.Close}
}

// givenWay sends it through a client as it comes.
func givenWay(servers *rediscluster.Cluster, plan *scripts.Plan, names []string) (way, error) {
	rdb := redis.NewClusterClient(options(servers))
	c, err := cluster.New(rdb, cluster.Options{Timeout: patience})
	return way{"cluster, New", taking(c, plan, names), rdb.Close}, err
}

func taking(c *cluster.Client, plan *scripts.Plan, names []string) func(ctx context.Context, i int) error {
	return func(ctx context.Context, i int) error {
		_, err := c.Do(ctx, &scripts.Call{Plan: plan, Key: names[i], Cost: 1, Count: 1})
		return err
	}
}

// limiterWay decides, from the subject's name to the result.
func limiterWay(servers *rediscluster.Cluster, subjects []string) (way, error) {
	l, err := shardlimit.Open(options(servers), shardlimit.Config{Timeout: patience})
	if err != nil {
		return way{}, err
	}
	policy, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{
		Name: "bench", Limits: []shardlimit.Limit{shardlimit.PerSecond(rate).WithBurst(burst)},
	})
	return way{"Limiter.Allow", func(ctx context.Context, i int) error {
		r, err := l.Allow(ctx, policy, subjects[i])
		if err == nil {
			err = r.Failure
		}
		return err
	}, l.Close}, err
}
