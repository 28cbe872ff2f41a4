package shardlimit_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// faulty is a store in memory before which a test puts faults.
type faulty struct {
	store *memory.Store
	fault func(ctx context.Context, c *scripts.Call) error // nil: none
}

func (f *faulty) run(ctx context.Context, c *scripts.Call) (scripts.Reply, error) {
	if err := f.fault(ctx, c); err != nil {
		return scripts.Reply{}, err
	}
	return f.store.Do(context.Background(), c)
}

// onFaulty returns a Limiter before which fault stands.
func onFaulty(fault func(ctx context.Context, c *scripts.Call) error) *shardlimit.Limiter {
	return on((&faulty{memory.New(), fault}).run)
}

// named returns a policy of one limit under its own name.
func named(name string, limit shardlimit.Limit) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: name, Limits: []shardlimit.Limit{limit}})
}

// wantLeft checks what remains to the subject.
func wantLeft(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, subject string, want int64) {
	t.Helper()
	if r := result(t)(l.Peek(t.Context(), p, subject)); r.Remaining != want || r.Failure != nil {
		t.Errorf("%s, %s: %+v, want %d remaining", p.Name(), subject, r, want)
	}
}

func ask(p *shardlimit.Policy, subject string) shardlimit.Request {
	return shardlimit.Request{Policy: p, Subject: subject}
}

// A caller who leaves while the calls are under way gets nothing, and what they
// charge is given back.
func TestAllowAllOfACallerWhoLeavesIsGivenBack(t *testing.T) {
	p, q := named("p", shardlimit.Per(5, long)), named("q", shardlimit.Per(5, long))
	synctest.Test(t, func(t *testing.T) {
		l := onFaulty(func(context.Context, *scripts.Call) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		results, err := l.AllowAll(ctx, ask(p, "a"), ask(q, "b"))
		if results != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AllowAll = %+v, %v; want DeadlineExceeded", results, err)
		}
		if err := l.Close(); err != nil { // waits for what goes on
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		slow.Store(true)
		l := onFaulty(func(context.Context, *scripts.Call) error {
			if slow.Load() {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if results, err := l.AllowAll(ctx, ask(p, "a"), ask(q, "b")); results != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("AllowAll = %+v, %v; want Canceled", results, err)
		}
		time.Sleep(time.Minute)
		slow.Store(false)
		wantLeft(t, l, p, "a", 5)
		wantLeft(t, l, q, "b", 5)
		if c := l.Inspect().Counters; c.Errors != 2 || c.Stranded != 0 {
			t.Errorf("Counters: %+v, want 2 errors and nothing stranded", c)
		}
	})
}

// Giving back has a deadline of its own, and nobody waits for it longer than the
// Timeout.
func TestAllowAllGivesBackBeyondItsCallersTimeout(t *testing.T) {
	p, full := named("p", shardlimit.Per(5, long)), named("full", shardlimit.Per(1, long))
	synctest.Test(t, func(t *testing.T) {
		l := onFaulty(func(ctx context.Context, c *scripts.Call) error {
			if c.Op != scripts.Give {
				return nil
			}
			select {
			case <-time.After(900 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return errNeverRan
			}
		})
		allow(t, l, full, "b")
		began := time.Now()
		results, err := l.AllowAll(t.Context(), ask(p, "a"), ask(full, "b"))
		if took := time.Since(began); err != nil || took != 50*time.Millisecond || results[0].Allowed || results[1].RetryAfter == 0 {
			t.Errorf("AllowAll = %+v, %v after %v; want it refused after 50 ms", results, err, took)
		}
		wantLeft(t, l, p, "a", 4) // as others see it meanwhile
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 900*time.Millisecond {
			t.Errorf("Close returned after %v, want it to wait for what is given back", took)
		}
	})
}

func TestAllowAllCountsWhatItCannotGiveBack(t *testing.T) {
	p, full := named("p", shardlimit.Per(5, long)), named("full", shardlimit.Per(1, long))
	l := onFaulty(func(_ context.Context, c *scripts.Call) error {
		if c.Op == scripts.Give {
			return errNeverRan
		}
		return nil
	})
	allow(t, l, full, "b")
	results, err := l.AllowAll(t.Context(), shardlimit.Request{Policy: p, Subject: "a", Cost: 3}, ask(full, "b"))
	if err != nil || results[0].Allowed || results[0].Granted != 0 {
		t.Errorf("AllowAll = %+v, %v; want it refused", results, err)
	}
	if c := l.Inspect().Counters; c.Stranded != 3 || c.Denied != 2 {
		t.Errorf("Counters: %+v, want 3 stranded and 2 denied", c)
	}
	wantLeft(t, l, p, "a", 2)
}

// away fails calls of the policy named so.
func away(name string, err error) func(context.Context, *scripts.Call) error {
	return func(_ context.Context, c *scripts.Call) error {
		if policyOf(c.Key) == name {
			return err
		}
		return nil
	}
}

// policyOf returns the policy's name in a key.
func policyOf(key string) string {
	parts := strings.Split(key, ":")
	return parts[len(parts)-2]
}

func TestMembersOfAllowAllAnsweredByTheirMode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   shardlimit.FailureMode
		shadow bool
		passes []bool // one after the other
	}{
		{"open", shardlimit.FailOpen(), false, []bool{true, true}},
		{"closed", shardlimit.FailClosed(), false, []bool{false, false}},
		{"local", shardlimit.FailLocal(0.2), false, []bool{true, false}},
		{"closed, in shadow", shardlimit.FailClosed(), true, []bool{true, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := named("p", shardlimit.Per(5, long))
			gone := shardlimit.MustPolicy(shardlimit.PolicyConfig{
				Name: "gone", Limits: []shardlimit.Limit{shardlimit.Per(5, long)}, OnFailure: tt.mode, Shadow: tt.shadow,
			})
			l, left := onFaulty(away("gone", errNeverRan)), int64(5)
			for _, passes := range tt.passes {
				results, err := l.AllowAll(t.Context(), ask(p, "a"), ask(gone, "b"))
				if err != nil || results[0].Allowed != passes || results[1].Allowed != passes ||
					results[0].Failure != nil || results[1].Failure == nil || (results[1].RetryAfter > 0) == passes && !tt.shadow {
					t.Fatalf("AllowAll = %+v, %v; want it allowed: %t", results, err, passes)
				}
				if passes {
					left--
				}
				wantLeft(t, l, p, "a", left)
			}
		})
	}
}

// What the share was charged is given back too.
func TestAllowAllGivesBackAShare(t *testing.T) {
	gone, full := failsLocal(0.2, shardlimit.Per(5, long)), named("full", shardlimit.Per(1, long))
	l := onFaulty(away("local", errNeverRan))
	allow(t, l, full, "b")
	for range 3 {
		if r, err := l.AllowAll(t.Context(), ask(gone, "a"), ask(full, "b")); err != nil || r[0].Allowed {
			t.Errorf("AllowAll = %+v, %v; want it refused", r, err)
		}
	}
	if r := allow(t, l, gone, "a"); !r.Allowed {
		t.Errorf("Allow = %+v, want the share unused", r)
	}
}

// A fault of the set-up is an error, whatever the others say, and they keep
// nothing.
func TestAllowAllOfAMisconfiguredMember(t *testing.T) {
	cause := &failover.Error{Class: failover.Configuration, Err: errors.New("NOPERM no permission")}
	p, bad := named("p", shardlimit.Per(5, long)), named("bad", shardlimit.Per(5, long))
	l := onFaulty(away("bad", cause))
	results, err := l.AllowAll(t.Context(), ask(p, "a"), ask(bad, "b"))
	if r, ok := errors.AsType[*shardlimit.RequestError](err); results != nil || !ok || r.Index != 1 || !errors.Is(err, cause) {
		t.Errorf("AllowAll = %+v, %v; want the error of request 1", results, err)
	}
	wantLeft(t, l, p, "a", 5)
}

func TestShadowRefusesNothingOfAllowAll(t *testing.T) {
	l := local(t, shardlimit.Config{Logger: slog.New(slog.DiscardHandler)})
	shadow, p := shadowOf(shardlimit.PolicyConfig{}), named("p", shardlimit.Per(7, long))
	for i := range 8 {
		results, err := l.AllowAll(t.Context(), ask(shadow, "a"), ask(p, "a"))
		passes := i < 7
		if err != nil || results[0].Allowed != passes || results[1].Allowed != passes || results[0].Shadowed != (i >= 5) {
			t.Errorf("AllowAll %d = %+v, %v", i, results, err)
		}
		if !passes && (results[0].RetryAfter != 0 || results[1].RetryAfter == 0) {
			t.Errorf("AllowAll = %+v, want the second to have refused", results)
		}
	}
}

func TestAllowAllAndEachAreTold(t *testing.T) {
	var mu sync.Mutex
	var told []shardlimit.Decision
	l := local(t, shardlimit.Config{Observer: shardlimit.Observer{Decided: func(_ context.Context, d shardlimit.Decision) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, shardlimit.Decision{Policy: d.Policy, Cost: d.Cost, Result: shardlimit.Result{Allowed: d.Result.Allowed}})
	}}})
	p, q := named("p", shardlimit.Per(5, long)), named("q", shardlimit.Per(1, long))
	for range 2 {
		if _, err := l.AllowAll(t.Context(), ask(p, "a"), ask(q, "b"), ask(p, "a")); err != nil {
			t.Fatal(err)
		}
	}
	l.AllowEach(t.Context(), ask(p, "a"), ask(q, ""), ask(q, "b"))
	yes := shardlimit.Result{Allowed: true}
	want := []shardlimit.Decision{
		{Policy: "p", Cost: 2, Result: yes},
		{Policy: "q", Cost: 1, Result: yes},
		{Policy: "p", Cost: 2},
		{Policy: "q", Cost: 1},
		{Policy: "p", Cost: 1, Result: yes},
		{Policy: "q", Cost: 1},
	}
	if diff := cmp.Diff(want, told, cmpopts.IgnoreUnexported(shardlimit.Result{})); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Those who compete for the same two subjects: never more than fit, and once it
// is quiet exactly what passed is charged.
func TestAllowAllNeverPassesTooMany(t *testing.T) {
	for name, limits := range kinds(50, long) {
		t.Run(name, func(t *testing.T) {
			l := local(t, shardlimit.Config{})
			p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "p", Limits: limits})
			q := named("q", shardlimit.Per(30, long))
			var passed atomic.Int64
			atOnce(64, func() {
				for range 5 {
					if r, err := l.AllowAll(t.Context(), ask(p, "a"), ask(q, "b")); err != nil {
						t.Error(err)
					} else if r[0].Allowed {
						passed.Add(1)
					}
				}
			})
			// Some may have been refused too many; nobody disturbs these.
			for range 30 {
				if r, err := l.AllowAll(t.Context(), ask(p, "a"), ask(q, "b")); err != nil {
					t.Error(err)
				} else if r[0].Allowed {
					passed.Add(1)
				}
			}
			if n := passed.Load(); n != 30 {
				t.Errorf("%d passed, want 30", n)
			}
			// A bucket may keep what decayed while it was charged and given back.
			if r := result(t)(l.Peek(t.Context(), p, "a")); r.Remaining < 18 || r.Remaining > 20 {
				t.Errorf("%d of 50 remain, want 20", r.Remaining)
			}
		})
	}
}
