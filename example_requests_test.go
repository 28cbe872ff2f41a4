package shardlimit_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
)

func ExampleLimiter_AllowAll() {
	ctx, limiter := context.Background(), newExample()
	tenant := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "tenant", Limits: []shardlimit.Limit{shardlimit.PerHour(100)}})
	route := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "route", Limits: []shardlimit.Limit{shardlimit.PerHour(2)}})
	for range 3 {
		results, err := limiter.AllowAll(ctx,
			shardlimit.Request{Policy: tenant, Subject: "acme"},
			shardlimit.Request{Policy: route, Subject: "POST /orders"})
		if err != nil {
			fmt.Println(err)
		}
		for i, who := range []string{"tenant", "route"} {
			fmt.Println(who, results[i].Allowed, results[i].Remaining, "refuses:", results[i].RetryAfter > 0)
		}
	}
	// Output:
	// tenant true 99 refuses: false
	// route true 1 refuses: false
	// tenant true 98 refuses: false
	// route true 0 refuses: false
	// tenant false 98 refuses: false
	// route false 0 refuses: true
}

func ExampleLimiter_AllowEach() {
	limiter, policy := newExample(), perHour(2)
	outcomes := limiter.AllowEach(context.Background(),
		shardlimit.Request{Policy: policy, Subject: "user:1", Cost: 2},
		shardlimit.Request{Policy: policy, Subject: "user:2", Cost: 9},
		shardlimit.Request{Policy: policy, Subject: "user:3"})
	for _, o := range outcomes {
		fmt.Println(o.Allowed, o.Remaining, o.Err)
	}
	// Output:
	// true 0 <nil>
	// false 0 shardlimit: cost 9: more than 2/h can ever hold
	// true 1 <nil>
}

func ExampleFailLocal() {
	// A port where nobody listens: a Redis that is away.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	limiter, err := shardlimit.New(rdb, shardlimit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(20)},
		OnFailure: shardlimit.FailLocal(0.1), // for ten instances
	})
	for range 3 {
		r, err := limiter.Allow(context.Background(), policy, "user:42")
		fmt.Println(r.Allowed, r.Remaining, r.Source, r.Failure != nil, err)
	}
	// Output:
	// true 1 fallback true <nil>
	// true 0 fallback true <nil>
	// false 0 fallback true <nil>
}
