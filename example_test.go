package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
)

func Example() {
	ctx := context.Background()
	limiter, err := shardlimit.NewLocal(shardlimit.Config{}) // or Open, for a Redis Cluster
	if err != nil {
		log.Fatal(err)
	}
	login := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name:      "login",
		Limits:    []shardlimit.Limit{shardlimit.PerHour(2)},
		OnFailure: shardlimit.FailClosed(),
	})
	for range 3 {
		r, err := limiter.Allow(ctx, login, "user:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Allowed, r.Remaining)
	}
	if err := limiter.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

func ExampleOpen() {
	limiter, err := shardlimit.Open(
		&redis.ClusterOptions{Addrs: []string{"redis-0:6379", "redis-1:6379", "redis-2:6379"}},
		shardlimit.Config{Prefix: "shop"},
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.Close())
	// Output: <nil>
}

func ExampleNew() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                 []string{"redis-0:6379", "redis-1:6379", "redis-2:6379"},
		ContextTimeoutEnabled: true,
	})
	limiter, err := shardlimit.New(rdb, shardlimit.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.Close(), rdb.Close())
	// Output: <nil> <nil>
}

func ExampleNewPolicy() {
	_, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{
		Name: "api calls",
		Limits: []shardlimit.Limit{
			shardlimit.PerSecond(0),
			shardlimit.PerSecond(100_000).WithAlgorithm(shardlimit.GCRA),
		},
	})
	fmt.Println(err)
	// Output:
	// shardlimit: Name: "api calls": must match ^[A-Za-z0-9_.-]{1,64}$
	// shardlimit: Limits[0].Rate: 0: must be 1 to 1000000000
	// shardlimit: Limits[1].Rate: 100000: leaves less than 62.5µs a unit, which gcra can't count: use token_bucket
}

func ExampleParseLimit() {
	for _, text := range []string{"100/s", "1000/h burst 50", "5/300s sliding_log", "5 a minute"} {
		limit, err := shardlimit.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit, limit.Algorithm)
	}
	// Output:
	// 100/s token_bucket
	// 1000/h burst 50 token_bucket
	// 5/5m sliding_log sliding_log
	// shardlimit: Limit: "5 a minute": has no slash: want N/duration [burst N] [algorithm]
}

func ExampleLimit_Share() {
	fmt.Println(shardlimit.PerSecond(100).WithBurst(30).Share(0.25))
	// Output: 25/s burst 7
}

func ExamplePolicy_WithLimits() {
	ctx, limiter := context.Background(), newExample()
	free := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(3)}})
	paid, err := free.WithLimits(shardlimit.PerHour(30))
	if err != nil {
		log.Fatal(err)
	}
	for _, plan := range []*shardlimit.Policy{free, free, free, free, paid} {
		r, err := limiter.Allow(ctx, plan, "customer:7")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Limit, r.Allowed, r.Remaining)
	}
	// Output:
	// 3/h true 2
	// 3/h true 1
	// 3/h true 0
	// 3/h false 0
	// 30/h true 26
}

// newExample returns the limiter of an example.
func newExample() *shardlimit.Limiter {
	limiter, err := shardlimit.NewLocal(shardlimit.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return limiter
}

// perHour returns the policy of an example.
func perHour(rate int64) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(rate)}})
}

// show prints what matters of a result.
func show(call string, r shardlimit.Result, err error) {
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: allowed %t, granted %d, remaining %d\n", call, r.Allowed, r.Granted, r.Remaining)
}

func ExampleLimiter_Allow() {
	ctx, limiter, policy := context.Background(), newExample(), perHour(2)
	for range 3 {
		r, err := limiter.Allow(ctx, policy, "user:42")
		show("Allow", r, err)
	}
	// Output:
	// Allow: allowed true, granted 1, remaining 1
	// Allow: allowed true, granted 1, remaining 0
	// Allow: allowed false, granted 0, remaining 0
}

func ExampleLimiter_AllowN() {
	ctx, limiter, policy := context.Background(), newExample(), perHour(5)
	for _, cost := range []int64{3, 4, 2} {
		r, err := limiter.AllowN(ctx, policy, "user:42", cost)
		show(fmt.Sprintf("AllowN(%d)", cost), r, err)
	}
	_, err := limiter.AllowN(ctx, policy, "user:42", 9)
	if c, ok := errors.AsType[*shardlimit.CostError](err); ok {
		fmt.Println(c.Cost, "can never pass", c.Limit)
	}
	// Output:
	// AllowN(3): allowed true, granted 3, remaining 2
	// AllowN(4): allowed false, granted 0, remaining 2
	// AllowN(2): allowed true, granted 2, remaining 0
	// 9 can never pass 5/h
}

func ExampleLimiter_AllowAtMost() {
	ctx, limiter, policy := context.Background(), newExample(), perHour(5)
	for range 3 {
		r, err := limiter.AllowAtMost(ctx, policy, "user:42", 3)
		show("AllowAtMost(3)", r, err)
	}
	// Output:
	// AllowAtMost(3): allowed true, granted 3, remaining 2
	// AllowAtMost(3): allowed true, granted 2, remaining 0
	// AllowAtMost(3): allowed false, granted 0, remaining 0
}

func ExampleLimiter_Charge() {
	ctx, limiter, policy := context.Background(), newExample(), perHour(5)
	r, err := limiter.Charge(ctx, policy, "user:42", 7) // it took more than was left
	show("Charge(7)", r, err)
	r, err = limiter.Allow(ctx, policy, "user:42")
	show("Allow", r, err)
	// Output:
	// Charge(7): allowed true, granted 7, remaining 0
	// Allow: allowed false, granted 0, remaining 0
}

func ExampleLimiter_Peek() {
	ctx, limiter, policy := context.Background(), newExample(), perHour(5)
	for range 2 {
		r, err := limiter.Peek(ctx, policy, "user:42")
		show("Peek", r, err)
	}
	// Output:
	// Peek: allowed true, granted 0, remaining 5
	// Peek: allowed true, granted 0, remaining 5
}

func ExampleLimiter_Refund() {
	ctx, limiter, policy := context.Background(), newExample(), perHour(5)
	r, err := limiter.AllowN(ctx, policy, "user:42", 3)
	show("AllowN(3)", r, err)
	if err := limiter.Refund(ctx, r); err != nil { // the request came to nothing
		log.Fatal(err)
	}
	r, err = limiter.Peek(ctx, policy, "user:42")
	show("Peek", r, err)
	// Output:
	// AllowN(3): allowed true, granted 3, remaining 2
	// Peek: allowed true, granted 0, remaining 5
}

func ExampleLimiter_Reset() {
	ctx, limiter, policy := context.Background(), newExample(), perHour(5)
	r, err := limiter.AllowN(ctx, policy, "user:42", 5)
	show("AllowN(5)", r, err)
	if err := limiter.Reset(ctx, policy, "user:42"); err != nil {
		log.Fatal(err)
	}
	r, err = limiter.Allow(ctx, policy, "user:42")
	show("Allow", r, err)
	// Output:
	// AllowN(5): allowed true, granted 5, remaining 0
	// Allow: allowed true, granted 1, remaining 4
}

func ExampleFailOpen() {
	// A port where nobody listens: a Redis that is away.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	limiter, err := shardlimit.New(rdb, shardlimit.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, mode := range []shardlimit.FailureMode{shardlimit.FailOpen(), shardlimit.FailClosed()} {
		policy := shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(10)}, OnFailure: mode,
		})
		r, err := limiter.Allow(context.Background(), policy, "user:42")
		fmt.Println(mode, r.Allowed, r.Source, r.RetryAfter, r.Failure != nil, err)
	}
	// Output:
	// open true fallback 0s true <nil>
	// closed false fallback 50ms true <nil>
}

// The hooks of an Observer feed metrics: here a counter for each policy.
func ExampleObserver() {
	denied := map[string]int{}
	limiter, err := shardlimit.NewLocal(shardlimit.Config{Observer: shardlimit.Observer{
		Decided: func(_ context.Context, d shardlimit.Decision) {
			if d.Err == nil && !d.Result.Allowed {
				denied[d.Policy]++
			}
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = limiter.Close() }()

	login := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "login", Limits: []shardlimit.Limit{shardlimit.PerMinute(5).WithAlgorithm(shardlimit.SlidingLog)},
	})
	for range 8 {
		if _, err := limiter.Allow(context.Background(), login, "user:42"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(denied, limiter.Inspect().Counters.Denied)
	// Output: map[login:3] 3
}
