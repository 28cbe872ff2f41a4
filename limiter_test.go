package shardlimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/limitertest"
)

// long is a period in which nothing refills, nor a window ends, during a test:
// about a year, of whose windows now is near neither edge.
var long = func() time.Duration {
	const day = 24 * time.Hour
	for period := 366 * day; ; period -= day {
		if in := time.Duration(time.Now().UnixNano()) % period; in > day && in < period-day {
			return period
		}
	}
}()

var algorithms = []shardlimit.Algorithm{
	shardlimit.TokenBucket, shardlimit.GCRA, shardlimit.SlidingWindow, shardlimit.SlidingLog, shardlimit.FixedWindow,
}

// kinds returns the limits of a policy for each algorithm, and of one for
// several of them.
func kinds(rate int64, period time.Duration) map[string][]shardlimit.Limit {
	all := map[string][]shardlimit.Limit{}
	for _, a := range algorithms {
		limit := shardlimit.Per(rate, period).WithAlgorithm(a)
		all[a.String()] = []shardlimit.Limit{limit}
		if a != shardlimit.SlidingLog {
			all["several"] = append(all["several"], limit)
		}
	}
	return all
}

func TestMemoryKeepsThePromises(t *testing.T) {
	limitertest.Run(t, newLocal)
}

func TestMemoryPassesItsShareOfASteadyLoad(t *testing.T) {
	limitertest.RoundRobin(t, newLocal, 1)
}

// newLocal returns a local Limiter under a clock that can be set.
func newLocal(t *testing.T) (limitertest.Limiter, func(time.Time)) {
	t.Helper()
	l := local(t, shardlimit.Config{})
	return l, setClock(l)
}

func local(t *testing.T, cfg shardlimit.Config) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.NewLocal(cfg)
	return closing.Opened(t, l, err)
}

// setClock returns a function that sets the time at which l decides.
func setClock(l *shardlimit.Limiter) func(time.Time) {
	var micros atomic.Int64
	l.SetClock(func() testclock.Time { return testclock.At(micros.Load()) })
	return func(now time.Time) { micros.Store(now.UnixMicro()) }
}

func policy(t *testing.T, limits ...shardlimit.Limit) *shardlimit.Policy {
	t.Helper()
	p, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: "api", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// allow asks for one unit.
func allow(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, subject string) shardlimit.Result {
	t.Helper()
	return result(t)(l.Allow(t.Context(), p, subject))
}

// result returns a function that returns a call's result, or notes its error.
func result(t *testing.T) func(r shardlimit.Result, err error) shardlimit.Result {
	t.Helper()
	return func(r shardlimit.Result, err error) shardlimit.Result {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		return r
	}
}

func TestSubjectsAndPoliciesShareNothing(t *testing.T) {
	l := local(t, shardlimit.Config{SubjectKey: []byte("secret")})
	p := policy(t, shardlimit.Per(5, long))
	other := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "login", Limits: p.Limits()})
	allow(t, l, p, "a")
	for _, r := range []shardlimit.Result{allow(t, l, p, "b"), allow(t, l, other, "a")} {
		if r.Remaining != 4 {
			t.Errorf("Allow = %+v, want 4 remaining", r)
		}
	}
	if r := allow(t, l, p, "a"); r.Remaining != 3 || r.Source != shardlimit.FromMemory {
		t.Errorf("Allow = %+v, want 3 remaining, from memory", r)
	}
}

func TestClosedLimiterSaysSo(t *testing.T) {
	l := local(t, shardlimit.Config{})
	p := policy(t, shardlimit.Per(5, long))
	charged := allow(t, l, p, "a")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
	ctx := t.Context()
	_, allow := l.Allow(ctx, p, "a")
	_, allowN := l.AllowN(ctx, p, "a", 2)
	_, allowAtMost := l.AllowAtMost(ctx, p, "a", 2)
	_, charge := l.Charge(ctx, p, "a", 2)
	_, peek := l.Peek(ctx, p, "a")
	_, allowAll := l.AllowAll(ctx, ask(p, "a"))
	for name, err := range map[string]error{
		"Allow": allow, "AllowN": allowN, "AllowAtMost": allowAtMost, "Charge": charge, "Peek": peek,
		"Refund": l.Refund(ctx, charged), "Reset": l.Reset(ctx, p, "a"), "Wait": l.Wait(ctx, p, "a"),
		"AllowAll": allowAll, "AllowEach": l.AllowEach(ctx, ask(p, "a"))[0].Err,
	} {
		if !errors.Is(err, shardlimit.ErrClosed) {
			t.Errorf("%s: error %v, want ErrClosed", name, err)
		}
	}
}

func TestRefundIsForTheLimiterThatCharged(t *testing.T) {
	l, other := local(t, shardlimit.Config{}), local(t, shardlimit.Config{})
	p := policy(t, shardlimit.Per(5, long))
	r := allow(t, l, p, "a")
	if err := other.Refund(t.Context(), r); !errors.Is(err, shardlimit.ErrOtherLimiter) {
		t.Errorf("Refund by another Limiter: error %v, want ErrOtherLimiter", err)
	}
	if err := l.Refund(t.Context(), r); err != nil {
		t.Errorf("Refund: %v", err)
	}
}

func TestCallerWhoHasGoneGetsTheirOwnError(t *testing.T) {
	l := local(t, shardlimit.Config{})
	p := policy(t, shardlimit.Per(5, long))
	charged := allow(t, l, p, "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Refund(ended, charged); !errors.Is(err, context.Canceled) {
		t.Errorf("Refund: error %v, want Canceled", err)
	}
	if err := l.Refund(t.Context(), charged); err != nil { // nothing was sent: it can go now
		t.Errorf("Refund: %v", err)
	}
	if r := result(t)(l.Peek(t.Context(), p, "a")); r.Remaining != 5 {
		t.Errorf("%d remain, want 5", r.Remaining)
	}
}

func BenchmarkAllow(b *testing.B) {
	ctx := context.Background()
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for _, bm := range []struct {
		name   string
		limits []shardlimit.Limit
	}{
		{"one", []shardlimit.Limit{shardlimit.PerSecond(1e9)}},
		{"denied", []shardlimit.Limit{shardlimit.Per(1, long)}},
		{"several", []shardlimit.Limit{shardlimit.PerSecond(1e9), shardlimit.PerDay(1e9)}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: bm.name, Limits: bm.limits})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Allow(ctx, p, "user:0123456789"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// stops is a backend's end that takes no time.
func stops(end func() error) func(time.Time) error {
	return func(time.Time) error { return end() }
}
