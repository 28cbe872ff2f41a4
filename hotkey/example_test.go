package hotkey_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/hotkey"
)

// redis lends whatever is asked for.
type redis struct{}

func (redis) Lease(_ context.Context, _ hotkey.Key, ask hotkey.Ask) (hotkey.Grant, error) {
	return hotkey.Grant{Units: ask.Want}, nil
}

// decide asks Redis where the answer isn't known here.
func decide(tier *hotkey.Tier, key hotkey.Key) hotkey.Answer {
	if answer := (hotkey.Answer{}); tier.Decide(&answer, key, 1) {
		return answer
	}
	stamp := tier.Stamp(key)
	allowed := true // what Redis says
	tier.Observe(key, 1)
	if !allowed {
		tier.Denied(key, stamp, hotkey.Denial{Cost: 1, RetryAfter: time.Second})
	}
	return hotkey.Answer{Allowed: allowed}
}

func ExampleTier() {
	tier, err := hotkey.NewTier(redis{}, hotkey.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tier.Close(context.Background()) }()

	key := hotkey.Key{Spec: &hotkey.Spec{Policy: 1, Version: 1, Name: "api"}, Subject: "user:42"}
	for { // until the key is hot and leased
		if answer := decide(tier, key); answer.Spend.Lease() != nil {
			fmt.Println("allowed by a lease:", answer.Allowed)
			break
		}
	}
	// Output: allowed by a lease: true
}

func ExampleFlights() {
	flights := hotkey.NewFlights(hotkey.FlightConfig[string, int64]{
		Send: func(_ context.Context, _ time.Time, key string, cost, count int64) (left, granted int64, err error) {
			fmt.Println("take", cost, "from", key, count, "time")
			return 9, count, nil
		},
	})
	key := hotkey.Key{Spec: &hotkey.Spec{Policy: 1}, Subject: "user:42"}
	share, err := flights.Do(context.Background(), time.Second, key, 1, "rl:{user:42}:api:0000")
	fmt.Println(share.Allowed(), share.Reply, err)
	// Output:
	// take 1 from rl:{user:42}:api:0000 1 time
	// true 9 <nil>
}
