package shardlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

func TestObserverSeesEachDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var seen []shardlimit.Decision
		l := shardlimit.NewObserved(shardlimit.Backend{
			Run: func(_ context.Context, call *scripts.Call) (scripts.Reply, error) {
				time.Sleep(3 * time.Millisecond)
				switch call.Cost {
				case 3:
					return scripts.Reply{}, &failover.Error{Class: failover.Unknown, Err: io.EOF}
				case 4:
					return scripts.Reply{}, &failover.Error{Class: failover.Configuration, Err: errors.New("NOPERM")}
				case 5:
					return scripts.NewReply(1, 0, rule.State{}), nil
				}
				return scripts.NewReply(1, 1, rule.State{}), nil
			},
			Stop: func(time.Time) error { return nil },
		}, shardlimit.Observer{Decided: func(ctx context.Context, d shardlimit.Decision) {
			if ctx.Value(key{}) != "the caller's" {
				t.Error("the context is not the caller's")
			}
			seen = append(seen, d)
		}})
		p := policy(t, shardlimit.PerSecond(10))
		ctx := context.WithValue(t.Context(), key{}, "the caller's")
		var want []shardlimit.Decision
		for cost := range int64(6) {
			r, err := l.AllowN(ctx, p, "a", cost)
			if cost > 0 { // 0 is bad input
				want = append(want, shardlimit.Decision{Policy: "api", Cost: cost, Result: r, Err: err, Took: 3 * time.Millisecond})
			}
		}
		if _, err := l.Peek(ctx, p, "a"); err != nil {
			t.Error(err)
		}
		if len(seen) != len(want) {
			t.Fatalf("saw %d decisions, want %d", len(seen), len(want))
		}
		for i := range want {
			if seen[i] != want[i] {
				t.Errorf("saw %+v, want %+v", seen[i], want[i])
			}
		}
		counters := shardlimit.Counters{Allowed: 2, Denied: 1, FallbackAllowed: 1, Errors: 1, Unknown: 1}
		if diff := cmp.Diff(counters, l.Inspect().Counters); diff != "" {
			t.Errorf("Counters (-want +got):\n%s", diff)
		}
	})
}

func TestSnapshotIsPlainJSON(t *testing.T) {
	l := local(t, shardlimit.Config{})
	allow(t, l, policy(t, shardlimit.PerSecond(10)), "a")
	text, err := json.Marshal(l.Inspect())
	want := `{"shards":[],"counters":{"allowed":1,"denied":0,"fallback_allowed":0,"fallback_denied":0,"errors":0,"unknown":0,"shadowed":0,"stranded":0}}`
	if err != nil || string(text) != want {
		t.Errorf("Inspect as JSON: %s, %v; want %s", text, err, want)
	}
}

func TestFaultsOfABreakerAreNamedAtOnce(t *testing.T) {
	_, err := shardlimit.NewLocal(shardlimit.Config{Timeout: -1, Breaker: shardlimit.BreakerConfig{
		FailureRatio: 1.5, MinCalls: -1, Window: time.Millisecond, ProbeInterval: time.Nanosecond,
	}})
	want := []string{"Timeout", "Breaker.FailureRatio", "Breaker.MinCalls", "Breaker.Window", "Breaker.ProbeInterval"}
	if diff := cmp.Diff(want, faultyFields(err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	for _, breaker := range []shardlimit.BreakerConfig{
		{FailureRatio: math.NaN()}, {FailureRatio: -0.1}, {Window: -time.Second}, {ProbeInterval: -time.Second},
	} {
		if _, err := shardlimit.NewLocal(shardlimit.Config{Breaker: breaker}); len(faultyFields(err)) != 1 {
			t.Errorf("NewLocal with %+v: error %v, want one fault", breaker, err)
		}
	}
	local(t, shardlimit.Config{Breaker: shardlimit.BreakerConfig{
		FailureRatio: 1, MinCalls: 1, Window: 10 * time.Millisecond, ProbeInterval: time.Millisecond, Disabled: true,
	}})
}

// faultyFields returns the fields that err names.
func faultyFields(err error) []string {
	var fields []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if c, ok := errors.AsType[*shardlimit.ConfigError](err); ok {
				fields = append(fields, c.Field)
			}
		}
	}
	return fields
}
