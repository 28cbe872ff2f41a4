package shardlimit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/shardlimit/shardlimit"
)

// Endpoints share one limit, and what is expensive takes more of it.
func Example_expensiveEndpoints() {
	ctx, limiter := context.Background(), newExample()
	api := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerMinute(60).WithBurst(20)},
	})
	costs := map[string]int64{"/items": 1, "/search": 5, "/export": 15}
	for _, path := range []string{"/items", "/export", "/search", "/items"} {
		r, err := limiter.AllowN(ctx, api, "key:abc", costs[path])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(path, r.Allowed, r.Remaining)
	}
	// Output:
	// /items true 19
	// /export true 4
	// /search false 4
	// /items true 3
}
