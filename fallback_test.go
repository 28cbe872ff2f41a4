package shardlimit_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// failsLocal returns a policy that decides by a share while its shard is away.
func failsLocal(share float64, limits ...shardlimit.Limit) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "local", Limits: limits, OnFailure: shardlimit.FailLocal(share),
	})
}

func TestFaultsOfAShareAreNamed(t *testing.T) {
	ok := shardlimit.PerSecond(10)
	for _, tt := range []struct {
		name   string
		share  float64
		limits []shardlimit.Limit
		want   []string
	}{
		{"a tenth of ten", 0.1, []shardlimit.Limit{ok}, nil},
		{"all of it", 1, []shardlimit.Limit{ok}, nil},
		{"0", 0, []shardlimit.Limit{ok}, []string{"OnFailure"}},
		{"negative", -0.1, []shardlimit.Limit{ok}, []string{"OnFailure"}},
		{"above 1", 1.01, []shardlimit.Limit{ok}, []string{"OnFailure"}},
		{"infinite", math.Inf(1), []shardlimit.Limit{ok}, []string{"OnFailure"}},
		{"not a number", math.NaN(), []shardlimit.Limit{ok}, []string{"OnFailure"}},
		{"less than a unit of the rate", 0.09, []shardlimit.Limit{ok}, []string{"OnFailure"}},
		{"less than a unit of the burst", 0.1, []shardlimit.Limit{ok.WithBurst(9)}, []string{"OnFailure"}},
		{"less than a unit of the second", 0.1, []shardlimit.Limit{ok, shardlimit.PerDay(5)}, []string{"OnFailure"}},
		{"less than a unit of both", 0.01, []shardlimit.Limit{ok, shardlimit.PerDay(5)}, []string{"OnFailure", "OnFailure"}},
		{"a burst that takes too long", 0.5, []shardlimit.Limit{shardlimit.PerDay(3).WithBurst(8000)}, []string{"OnFailure"}},
		{"of a limit that is invalid itself", 0.5, []shardlimit.Limit{shardlimit.PerSecond(0)}, []string{"Limits[0].Rate"}},
	} {
		_, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: tt.limits, OnFailure: shardlimit.FailLocal(tt.share),
		})
		if got := fields(t, err); !slices.Equal(got, tt.want) {
			t.Errorf("%s: faults %q, want %q: %v", tt.name, got, tt.want, err)
		}
	}
}

func TestShareDecidesWhileTheShardIsAway(t *testing.T) {
	ctx := t.Context()
	for name, limits := range kinds(100, long) {
		t.Run(name, func(t *testing.T) {
			l := failing(errNeverRan)
			p := failsLocal(0.05, limits...)
			for want := int64(4); want >= 0; want-- {
				r := allow(t, l, p, "a")
				if !r.Allowed || r.Granted != 1 || r.Remaining != want || r.RetryAfter != 0 || r.ResetAfter == 0 ||
					r.Source != shardlimit.FromFallback || r.Failure == nil || !slices.Contains(limits, r.Limit) {
					t.Fatalf("Allow = %+v, want it allowed with %d remaining", r, want)
				}
			}
			denied := allow(t, l, p, "a")
			if denied.Allowed || denied.Granted != 0 || denied.RetryAfter < time.Hour || denied.Failure == nil {
				t.Errorf("Allow of what is used up = %+v, want it denied for long", denied)
			}
			if r := result(t)(l.Peek(ctx, p, "a")); r.Allowed || r.Remaining != 0 || r.RetryAfter < time.Hour {
				t.Errorf("Peek of what is used up = %+v", r)
			}
			if r := result(t)(l.AllowAtMost(ctx, p, "b", 50)); r.Granted != 5 || r.Remaining != 0 {
				t.Errorf("AllowAtMost(50) = %+v, want 5 granted", r)
			}
			if name == "gcra" || name == "several" {
				return
			}
			if r := result(t)(l.Charge(ctx, p, "c", 7)); !r.Allowed || r.Granted != 7 || r.Remaining != 0 {
				t.Errorf("Charge(7) = %+v", r)
			}
		})
	}
}

func TestCostAboveTheShareIsToldToAskAgain(t *testing.T) {
	for name, limits := range kinds(100, long) {
		l := failing(errNeverRan)
		p := failsLocal(0.05, limits...)
		r := result(t)(l.AllowN(t.Context(), p, "a", 6))
		if r.Allowed || r.Granted != 0 || r.Remaining != 5 || r.RetryAfter != 50*time.Millisecond || r.Failure == nil {
			t.Errorf("%s: AllowN(6) of a share of 5 = %+v, want it denied for the timeout", name, r)
		}
		if r := result(t)(l.AllowN(t.Context(), p, "a", 5)); !r.Allowed {
			t.Errorf("%s: AllowN(5) = %+v", name, r)
		}
	}
}

func TestShareIsGivenBackAndReset(t *testing.T) {
	for name, limits := range kinds(100, long) {
		t.Run(name, func(t *testing.T) {
			l := failing(errNeverRan)
			p := failsLocal(0.05, limits...)
			r := result(t)(l.AllowN(t.Context(), p, "a", 4))
			for range 2 { // once
				if err := l.Refund(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			if r := result(t)(l.AllowN(t.Context(), p, "a", 5)); !r.Allowed {
				t.Errorf("AllowN(5) after the refund = %+v", r)
			}
			if r := allow(t, l, p, "a"); r.Allowed {
				t.Errorf("Allow = %+v, want the refund to give 4", r)
			}
			if err := l.Reset(t.Context(), p, "a"); err == nil {
				t.Error("Reset, the shard being away: no error")
			}
			if r := result(t)(l.AllowN(t.Context(), p, "a", 5)); !r.Allowed {
				t.Errorf("AllowN(5) after the reset = %+v", r)
			}
		})
	}
}

// A shard that comes and goes grants the share once.
func TestShareOutlivesAnOutage(t *testing.T) {
	away := true
	l := on(func(_ context.Context, c *scripts.Call) (scripts.Reply, error) {
		if away {
			return scripts.Reply{}, errNeverRan
		}
		return scripts.NewReply(1, c.Count, rule.State{}), nil
	})
	p := failsLocal(0.05, shardlimit.Per(100, long))
	local := 0
	for i := range 100 {
		away = i%3 != 0
		if r := allow(t, l, p, "a"); r.Source == shardlimit.FromFallback && r.Allowed {
			local++
		}
	}
	if local != 5 {
		t.Errorf("%d admitted by the share of 5", local)
	}
}

func TestShareComesBackAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := failing(errNeverRan)
		p := failsLocal(0.1, shardlimit.PerSecond(100).WithBurst(50))
		admitted := 0
		for range 1000 { // 10 s
			if allow(t, l, p, "a").Allowed {
				admitted++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if admitted != 5+99 { // the share of the burst, and 10 a second for 9.99 s
			t.Errorf("%d admitted in 10 s, want 104", admitted)
		}
	})
}

// A flood of subjects leaves memory bounded, and those that are kept as they were.
func TestShareIsKeptOfABoundedNumberOfSubjects(t *testing.T) {
	l := failing(errNeverRan)
	p := failsLocal(0.1, shardlimit.Per(10, long))
	allow(t, l, p, "first")
	refused := 0
	for i := range 100_000 {
		r := allow(t, l, p, strconv.Itoa(i))
		if !r.Allowed {
			refused++
			if r.RetryAfter != 50*time.Millisecond || r.Failure == nil {
				t.Fatalf("Allow without room = %+v, want it denied for the timeout", r)
			}
		}
	}
	if kept := 100_000 - refused; kept > 65_536 || kept < 60_000 {
		t.Errorf("%d kept, want about 65,000", kept)
	}
	if r := allow(t, l, p, "first"); r.Allowed {
		t.Errorf("Allow = %+v, want the first subject's share still used", r)
	}
}

func TestModesInWords(t *testing.T) {
	for mode, want := range map[shardlimit.FailureMode]string{
		{}: "open", shardlimit.FailOpen(): "open", shardlimit.FailClosed(): "closed", shardlimit.FailLocal(0.25): "local 0.25",
	} {
		if got := mode.String(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
