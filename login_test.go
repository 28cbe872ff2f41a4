package shardlimit_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
)

// login is what protects a password: a few guesses for a user, more from an
// address.
var (
	loginUser = shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name:      "login-user",
		Limits:    []shardlimit.Limit{shardlimit.Per(5, 15*time.Minute).WithAlgorithm(shardlimit.SlidingLog)},
		OnFailure: shardlimit.FailClosed(),
	})
	loginAddress = shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name:      "login-address",
		Limits:    []shardlimit.Limit{shardlimit.Per(100, 15*time.Minute).WithAlgorithm(shardlimit.SlidingLog)},
		OnFailure: shardlimit.FailClosed(),
	})
)

// Of 64 parallel wrong guesses exactly 5 reach the check, though user and address
// are in two slots; and a right one leaves no trace.
func TestLoginProtection(t *testing.T) {
	l, ctx := newLimiter(t, redistest.Shared(t)), t.Context()
	for round := range 10 {
		user, address := fmt.Sprint("user:", round), fmt.Sprint("192.0.2.", round)
		if keys.Slot(user) == keys.Slot(address) {
			t.Fatalf("%s and %s share a slot", user, address)
		}
		guess := func(password string) []shardlimit.Result {
			results, err := l.AllowAll(ctx, ask(loginUser, user), ask(loginAddress, address))
			if err != nil {
				t.Error(err)
				return nil
			}
			if !results[0].Allowed || password != "right" {
				return results
			}
			if err := l.Reset(ctx, loginUser, user); err != nil {
				t.Error(err)
			}
			if err := l.Refund(ctx, results[1]); err != nil {
				t.Error(err)
			}
			return results
		}
		guess("right")
		wantLeft(t, l, loginUser, user, 5)
		wantLeft(t, l, loginAddress, address, 100)

		var checked atomic.Int64
		atOnce(64, func() {
			if r := guess("wrong"); r != nil && r[0].Allowed {
				checked.Add(1)
			}
		})
		if n := checked.Load(); n != 5 {
			t.Errorf("%d of 64 guesses reached the check, want 5", n)
		}
		wantLeft(t, l, loginUser, user, 0)
		wantLeft(t, l, loginAddress, address, 95)
		if r := guess("right"); r[0].Allowed || r[0].RetryAfter == 0 || r[1].RetryAfter != 0 {
			t.Errorf("a right guess too late = %+v, want the user to refuse it", r)
		}
	}
}

// Where the shard of either is gone no guess reaches the check, and the other is
// charged for none.
func TestLoginFailsClosed(t *testing.T) {
	c, node, its, others := oneShard(t)
	l := newOn(t, clientOf(t, c), shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: time.Second})
	wantFromRedis(t, l, []*shardlimit.Policy{loginUser, loginAddress}, append(others, its))
	if err := node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	atOnce(64, func() {
		for _, reqs := range [][]shardlimit.Request{
			{ask(loginUser, its), ask(loginAddress, others[0])},
			{ask(loginUser, others[1]), ask(loginAddress, its)},
		} {
			if r, err := l.AllowAll(t.Context(), reqs...); err != nil || r[0].Allowed || r[1].Allowed {
				t.Errorf("AllowAll = %+v, %v; want it refused", r, err)
			}
		}
	})
	wantLeft(t, l, loginAddress, others[0], 99)
	wantLeft(t, l, loginUser, others[1], 4)
	if n := l.Inspect().Counters.Stranded; n != 0 {
		t.Errorf("%d units stranded", n)
	}
}
