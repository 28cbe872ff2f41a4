package shardlimit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/shardlimit/shardlimit"
)

// Each region has a cluster of its own and its share of the budget: together they
// never pass more than the whole, and none asks another.
func Example_twoRegions() {
	ctx, whole := context.Background(), shardlimit.PerHour(10)
	admitted := 0
	for _, region := range []struct {
		name  string
		share float64
	}{{"eu", 0.7}, {"us", 0.3}} {
		limiter := newExample() // Open, with the region's own nodes
		policy := shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: []shardlimit.Limit{whole.Share(region.share)},
		})
		for range 20 {
			r, err := limiter.Allow(ctx, policy, "customer:7")
			if err != nil {
				log.Fatal(err)
			}
			admitted += int(r.Granted)
		}
		fmt.Println(region.name, policy.Limits()[0], admitted)
	}
	// Output:
	// eu 7/h 7
	// us 3/h 10
}
