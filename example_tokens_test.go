package shardlimit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/shardlimit/shardlimit"
)

// What an answer of a language model costs is known once it is there. So a
// request passes while anything is left, and is charged afterwards: one that
// took more leaves a debt, which is paid off before the next.
func Example_languageModelTokens() {
	ctx, limiter := context.Background(), newExample()
	tokens := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "tokens", Limits: []shardlimit.Limit{shardlimit.PerDay(10_000)},
	})
	for _, used := range []int64{4_000, 5_000, 3_000, 1} {
		before, err := limiter.Peek(ctx, tokens, "team:blue")
		if err != nil {
			log.Fatal(err)
		}
		if !before.Allowed {
			fmt.Println("refused")
			continue
		}
		after, err := limiter.Charge(ctx, tokens, "team:blue", used) // once it was answered
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("used", used, "remaining", after.Remaining)
	}
	// Output:
	// used 4000 remaining 6000
	// used 5000 remaining 1000
	// used 3000 remaining 0
	// refused
}
