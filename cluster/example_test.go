package cluster_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/cluster"
)

func ExampleTune() {
	tuned := cluster.Tune(&redis.ClusterOptions{Addrs: []string{"redis.example:6379"}, PoolSize: 8})
	fmt.Println(tuned.PoolSize, tuned.DialTimeout, tuned.ContextTimeoutEnabled)
	// Output:
	// 8 500ms true
}
