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

// Units a second and at once: enough that none is ever denied, which would cost
// less.
const rate, burst = 1_000_000_000, 1_000_000_000

// connect returns Script.Run first, to which the others are compared.
func connect(servers *rediscluster.Cluster, keys int) ([]way, error) {
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("rl:{user:%06d}:api", i)
	}
	plan := scripts.NewPlan(rule.Limit{Algorithm: rule.TokenBucket, Rate: rate, Period: 1_000_000, Burst: burst})
	limiter, err := limiterWay(servers, keys)
	if err != nil {
		return nil, err
	}
	own := cluster.Open(servers.ClientOptions(), cluster.Options{})
	users := servers.Options()
	return []way{
		scriptWay(servers, plan, names),
		clusterWay("cluster.Open", own, plan, names),
		usersWay(users, plan, names),
		limiter,
	}, nil
}
