package shardlimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A password is looked at only if both its user and the address it came from have
// guesses left. A right one is no guess: the user's count begins anew, and the
// address gets its unit back.
func Example_login() {
	ctx, limiter := context.Background(), newExample()
	guesses := func(name string, n int64) *shardlimit.Policy {
		return shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name:      name,
			Limits:    []shardlimit.Limit{shardlimit.Per(n, 15*time.Minute).WithAlgorithm(shardlimit.SlidingLog)},
			OnFailure: shardlimit.FailClosed(),
		})
	}
	perUser, perAddress := guesses("login-user", 5), guesses("login-address", 100)

	login := func(user, address, password string) string {
		results, err := limiter.AllowAll(ctx,
			shardlimit.Request{Policy: perUser, Subject: user},
			shardlimit.Request{Policy: perAddress, Subject: address})
		switch {
		case err != nil:
			return "error"
		case !results[0].Allowed: // then neither is
			return "later"
		case password != "correct horse":
			return "wrong"
		}
		if err := limiter.Reset(ctx, perUser, user); err != nil {
			log.Print(err)
		}
		if err := limiter.Refund(ctx, results[1]); err != nil {
			log.Print(err)
		}
		return "welcome"
	}
	for _, password := range []string{"1234", "password", "correct horse", "a", "b", "c", "d", "e", "correct horse"} {
		fmt.Println(login("alice", "192.0.2.1", password))
	}
	r, err := limiter.Peek(ctx, perAddress, "192.0.2.1")
	fmt.Println(r.Remaining, err)
	// Output:
	// wrong
	// wrong
	// welcome
	// wrong
	// wrong
	// wrong
	// wrong
	// wrong
	// later
	// 93 <nil>
}
