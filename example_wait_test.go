package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Workers of a queue wait for their turn at somebody else's API, however many
// instances they run in.
func Example_jobQueue() {
	ctx, limiter := context.Background(), newExample()
	partner := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "partner", Limits: []shardlimit.Limit{shardlimit.PerSecond(200).WithBurst(1)},
		OnFailure: shardlimit.FailClosed(), // wait until Redis is back
	})
	jobs := make(chan int)
	var workers sync.WaitGroup
	began := time.Now()
	for range 4 {
		workers.Go(func() {
			for range jobs {
				if err := limiter.Wait(ctx, partner, "partner.example"); err != nil {
					fmt.Println(err)
				}
			}
		})
	}
	for job := range 11 {
		jobs <- job
	}
	close(jobs)
	workers.Wait()
	fmt.Println("at most 200 a second:", time.Since(began) >= 50*time.Millisecond)
	// Output: at most 200 a second: true
}

// Who can't wait as long as it takes is told at once.
func ExampleLimiter_Wait() {
	limiter, policy := newExample(), perHour(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(limiter.Wait(ctx, policy, "user:42"))
	err := limiter.Wait(ctx, policy, "user:42")
	if d, ok := errors.AsType[*shardlimit.DeadlineError](err); ok {
		fmt.Println("try again in", d.RetryAfter.Round(time.Minute))
	}
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// try again in 1h0m0s
	// true
}

func ExampleLimiter_WaitN() {
	limiter, policy := newExample(), perHour(5)
	err := limiter.WaitN(context.Background(), policy, "user:42", 9)
	if c, ok := errors.AsType[*shardlimit.CostError](err); ok {
		fmt.Println(c.Cost, "never pass", c.Limit)
	}
	// Output: 9 never pass 5/h
}
