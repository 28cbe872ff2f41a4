package shardlimit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/shardlimit/shardlimit"
)

// Each plan has limits of its own under one name, so that a customer who changes
// plans keeps what is used.
func Example_plans() {
	ctx, limiter := context.Background(), newExample()
	free := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name:   "api",
		Limits: []shardlimit.Limit{shardlimit.PerHour(3), shardlimit.PerDay(10)},
	})
	plans := map[string]*shardlimit.Policy{"free": free}
	for name, perHour := range map[string]int64{"team": 30, "business": 300} {
		plan, err := free.WithLimits(shardlimit.PerHour(perHour), shardlimit.PerDay(10*perHour))
		if err != nil {
			log.Fatal(err)
		}
		plans[name] = plan
	}
	for _, plan := range []string{"free", "free", "free", "free", "team"} { // the customer pays for more
		r, err := limiter.Allow(ctx, plans[plan], "customer:7")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan, r.Allowed, r.Limit, r.Remaining)
	}
	// Output:
	// free true 3/h 2
	// free true 3/h 1
	// free true 3/h 0
	// free false 3/h 0
	// team true 30/h 26
}
