package redisrate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	redis_rate "github.com/shardlimit/shardlimit/compat/redisrate"
)

func ExampleNewLimiter() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"redis-0:6379", "redis-1:6379"}})
	limiter := redis_rate.NewLimiter(rdb)
	fmt.Println(limiter.Close(), rdb.Close())
	// Output: <nil> <nil>
}

func ExampleFrom() {
	ctx := context.Background()
	decides, err := shardlimit.NewLocal(shardlimit.Config{}) // or New, with a Timeout or an Observer
	if err != nil {
		log.Fatal(err)
	}
	limiter := redis_rate.From(decides)
	for range 3 {
		res, err := limiter.Allow(ctx, "project:123", redis_rate.PerHour(2))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("allowed", res.Allowed, "remaining", res.Remaining)
	}
	// Output:
	// allowed 1 remaining 1
	// allowed 1 remaining 0
	// allowed 0 remaining 0
}
