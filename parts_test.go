package shardlimit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// inParts returns a policy whose subjects have so many parts.
func inParts(parts int, limits ...shardlimit.Limit) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "parts", Limits: limits, Parts: parts, OnFailure: shardlimit.FailClosed(),
	})
}

func TestFaultsOfPartsAreNamed(t *testing.T) {
	ok := shardlimit.PerSecond(256)
	window := ok.WithAlgorithm(shardlimit.FixedWindow)
	for _, tt := range []struct {
		name   string
		parts  int
		limits []shardlimit.Limit
		want   []string
	}{
		{"none", 0, []shardlimit.Limit{ok}, nil},
		{"two", 2, []shardlimit.Limit{ok}, nil},
		{"64, of 4 units each", 64, []shardlimit.Limit{ok}, nil},
		{"64 of a window", 64, []shardlimit.Limit{window}, nil},
		{"gcra as fine as may be", 64, []shardlimit.Limit{shardlimit.PerSecond(16_000).WithAlgorithm(shardlimit.GCRA)}, nil},
		{"negative", -2, []shardlimit.Limit{ok}, []string{"Parts"}},
		{"one", 1, []shardlimit.Limit{ok}, []string{"Parts"}},
		{"65", 65, []shardlimit.Limit{ok.WithBurst(1000)}, []string{"Parts"}},
		{"a burst under 4 each", 64, []shardlimit.Limit{ok.WithBurst(255)}, []string{"Parts"}},
		{"a low rate and a burst of 4 each", 64, []shardlimit.Limit{shardlimit.PerSecond(1).WithBurst(256)}, nil},
		{"a window under 4 each", 64, []shardlimit.Limit{shardlimit.PerSecond(255).WithAlgorithm(shardlimit.SlidingWindow)}, []string{"Parts"}},
		{"the second limit's under 4 each", 64, []shardlimit.Limit{ok, shardlimit.PerDay(255)}, []string{"Parts"}},
		{"both under 4 each", 64, []shardlimit.Limit{shardlimit.PerSecond(9), shardlimit.PerDay(255)}, []string{"Parts", "Parts"}},
		{"a part of more than ten years", 64, []shardlimit.Limit{shardlimit.PerDay(1).WithBurst(3653)}, []string{"Parts"}},
		{"of a limit that is invalid itself", 64, []shardlimit.Limit{shardlimit.PerSecond(0)}, []string{"Limits[0].Rate"}},
	} {
		_, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: "api", Limits: tt.limits, Parts: tt.parts})
		if got := fields(t, err); !slices.Equal(got, tt.want) {
			t.Errorf("%s: faults %q, want %q: %v", tt.name, got, tt.want, err)
		}
	}
}

func TestCostMustFitTheSmallestPart(t *testing.T) {
	l := local(t, shardlimit.Config{})
	second := shardlimit.PerDay(40)
	p := inParts(4, shardlimit.PerDay(48), second) // 12 a part, and 10
	ctx := t.Context()
	check := func(what string, cost int64, err error) {
		t.Helper()
		c, ok := errors.AsType[*shardlimit.CostError](err)
		if !ok || c.Cost != cost || c.Limit != second || c.Parts != 4 {
			t.Errorf("%s: error %v, want a CostError of %v in 4 parts", what, err, second)
		}
	}
	_, err := l.AllowN(ctx, p, "a", 11)
	check("AllowN(11)", 11, err)
	_, err = l.AllowAll(ctx, shardlimit.Request{Policy: p, Subject: "a", Cost: 6}, shardlimit.Request{Policy: p, Subject: "a", Cost: 6})
	check("AllowAll of 6 and 6", 12, err)
	if left := result(t)(l.Peek(ctx, p, "a")).Remaining; left != 40 {
		t.Errorf("%d left, want all 40", left)
	}
	if r := result(t)(l.AllowN(ctx, p, "a", 10)); !r.Allowed || r.Granted != 10 {
		t.Errorf("AllowN(10) = %+v", r)
	}
	if r := result(t)(l.AllowAtMost(ctx, p, "a", 1000)); !r.Allowed || r.Granted != 10 {
		t.Errorf("AllowAtMost(1000) = %+v, want what fits into another part", r)
	}
}

// drain asks the limiters in turn for one unit, until the parts of the subject
// have no more, and returns the units granted.
func drain(t *testing.T, p *shardlimit.Policy, subject string, limiters ...*shardlimit.Limiter) (granted int64) {
	t.Helper()
	for {
		for _, l := range limiters {
			granted += allow(t, l, p, subject).Granted
		}
		if result(t)(limiters[0].Peek(t.Context(), p, subject)).Remaining == 0 {
			return granted
		}
	}
}

func TestPartsHoldTheLimitTogether(t *testing.T) {
	ctx := t.Context()
	for name, limits := range kinds(43, long) {
		t.Run(name, func(t *testing.T) {
			l := local(t, shardlimit.Config{})
			p := inParts(5, limits...)
			if r := result(t)(l.Peek(ctx, p, "a")); !r.Allowed || r.Remaining != 43 || r.Granted != 0 {
				t.Errorf("Peek = %+v, want 43 remaining", r)
			}
			if n := drain(t, p, "a", l); n != 43 {
				t.Errorf("%d passed, want 43", n)
			}
			denied := allow(t, l, p, "a")
			if denied.Allowed || denied.RetryAfter <= 0 || denied.Remaining != 0 || !slices.Contains(limits, denied.Limit) {
				t.Errorf("Allow of what is used up = %+v", denied)
			}
			if r := result(t)(l.Peek(ctx, p, "a")); r.Allowed || r.RetryAfter <= 0 || r.ResetAfter < r.RetryAfter {
				t.Errorf("Peek of what is used up = %+v", r)
			}
			if r := allow(t, l, p, "b"); !r.Allowed {
				t.Errorf("Allow of another subject = %+v", r)
			}
			if err := l.Reset(ctx, p, "a"); err != nil {
				t.Error(err)
			}
			if n := drain(t, p, "a", l); n != 43 {
				t.Errorf("after Reset: %d passed, want 43", n)
			}
		})
	}
}

func TestRefundGoesToItsPart(t *testing.T) {
	ctx := t.Context()
	for name, limits := range kinds(40, long) {
		t.Run(name, func(t *testing.T) {
			l := local(t, shardlimit.Config{})
			setClock(l)(time.UnixMicro(1_800_000_000_000_000)) // nothing decays
			p := inParts(4, limits...)
			var passed []shardlimit.Result
			for result(t)(l.Peek(ctx, p, "a")).Remaining > 0 {
				if r := allow(t, l, p, "a"); r.Allowed {
					passed = append(passed, r)
				}
			}
			for i, r := range passed[20:] {
				for range 2 { // the second does nothing
					if err := l.Refund(ctx, r); err != nil {
						t.Error(err)
					}
				}
				if left := result(t)(l.Peek(ctx, p, "a")).Remaining; left != int64(i+1) {
					t.Fatalf("%d left after %d refunds", left, i+1)
				}
			}
			if n := drain(t, p, "a", l); n != 20 {
				t.Errorf("%d passed after 20 refunds", n)
			}
		})
	}
}

func TestChargeGoesToOnePart(t *testing.T) {
	ctx := t.Context()
	l := local(t, shardlimit.Config{})
	p := inParts(4, shardlimit.Per(40, long))
	if r := result(t)(l.Charge(ctx, p, "a", 15)); !r.Allowed || r.Granted != 15 || r.Remaining != 0 {
		t.Errorf("Charge(15) = %+v, want a part in debt", r)
	}
	if left := result(t)(l.Peek(ctx, p, "a")).Remaining; left != 30 {
		t.Errorf("%d left, want the other parts' 30", left)
	}
	if _, err := l.Charge(ctx, p, "a", 1<<40); err == nil {
		t.Error("Charge of more than ten years: no error")
	}
}

// Asked for more than three times the limit, as time passes: never do more pass
// than the algorithm allows, and at most a unit a part and period less than unsplit.
func TestPartsKeepTheRate(t *testing.T) {
	const rate, parts, period, length, step = 60, 7, time.Second, 20 * time.Second, 5 * time.Millisecond
	for name, limits := range kinds(rate, period) {
		t.Run(name, func(t *testing.T) {
			l := local(t, shardlimit.Config{})
			set := setClock(l)
			split, unsplit := inParts(parts, limits...), policy(t, limits...)
			var ledgers []ledger
			for _, limit := range limits {
				ledgers = append(ledgers, newLedger(limit, rate))
			}
			var passed, passedUnsplit int64
			start := int64(1_800_000_000_000_000)
			for now := start; now < start+length.Microseconds(); now += step.Microseconds() {
				set(time.UnixMicro(now))
				passedUnsplit += allow(t, l, unsplit, "a").Granted
				granted := allow(t, l, split, "a").Granted
				passed += granted
				for _, led := range ledgers {
					if granted > 0 && !led.fits(now, granted) {
						t.Fatalf("%v after the start a unit passed too many", time.Duration(now-start)*time.Microsecond)
					}
					led.add(now, granted)
				}
			}
			if passed < passedUnsplit-parts*int64(length/period) {
				t.Errorf("%d passed, and %d unsplit", passed, passedUnsplit)
			}
		})
	}
}

func TestRetryAfterOfPartsPasses(t *testing.T) {
	l := local(t, shardlimit.Config{})
	set := setClock(l)
	now := time.UnixMicro(1_800_000_000_000_000)
	p := inParts(2, shardlimit.PerSecond(10)) // both parts are asked
	set(now)
	for range 20 {
		r := allow(t, l, p, "a")
		for r.Allowed {
			r = allow(t, l, p, "a")
		}
		set(now.Add(r.RetryAfter - time.Microsecond))
		if r := allow(t, l, p, "a"); r.Allowed {
			t.Fatalf("Allow a µs before RetryAfter = %+v", r)
		}
		now = now.Add(r.RetryAfter)
		set(now)
		if r := allow(t, l, p, "a"); !r.Allowed {
			t.Fatalf("Allow after RetryAfter = %+v", r)
		}
	}
}

// answer is what a backend says to a call for a unit of a bucket.
type answer func(*rule.Limit) (scripts.Reply, error)

// filled answers that a bucket holds so many units now, granted included.
func filled(l *rule.Limit, units, granted int64) (scripts.Reply, error) {
	const now = 1_800_000_000_000_000
	return scripts.NewReply(now, granted, rule.State{At: now, Used: float64(units * l.Period)}), nil
}

func pass(l *rule.Limit) (scripts.Reply, error)        { return filled(l, 1, 1) }
func deny(l *rule.Limit) (scripts.Reply, error)        { return filled(l, l.Burst, 0) }
func gone(*rule.Limit) (scripts.Reply, error)          { return scripts.Reply{}, errNeverRan }
func lost(*rule.Limit) (scripts.Reply, error)          { return scripts.Reply{}, errLost }
func misconfigured(*rule.Limit) (scripts.Reply, error) { return scripts.Reply{}, errBroken }

var (
	errLost   = &failover.Error{Class: failover.Unknown, Err: errors.New("EOF")}
	errBroken = &failover.Error{Class: failover.Configuration, Err: errors.New("NOPERM")}
)

// told is a backend that gives the answers it was told, one after the other, and
// then lets all pass. It keeps the calls.
type told struct {
	mu      sync.Mutex
	calls   []scripts.Call
	answers []answer
}

func (b *told) run(_ context.Context, c *scripts.Call) (scripts.Reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, *c)
	limit := &c.Plan.Limits()[0]
	if n := len(b.calls); n <= len(b.answers) {
		return b.answers[n-1](limit)
	}
	return pass(limit)
}

// What the parts asked answer decides, and the failure mode only where none does.
func TestPartsDecideInTurn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tell   []answer
		calls  int
		source shardlimit.Source // 0: an error
		passes bool
		nobody bool // has answered before the third is asked
	}{
		{"the own part passes", []answer{pass}, 1, shardlimit.FromRedis, true, false},
		{"another passes", []answer{deny, pass}, 2, shardlimit.FromRedis, true, false},
		{"the third passes", []answer{deny, deny, pass}, 3, shardlimit.FromRedis, true, false},
		{"three deny", []answer{deny, deny, deny}, 3, shardlimit.FromRedis, false, false},
		{"the own part is away, another passes", []answer{gone, pass}, 2, shardlimit.FromRedis, true, false},
		{"two are away, the third passes", []answer{gone, gone, pass}, 3, shardlimit.FromRedis, true, true},
		{"two are away, the third denies", []answer{gone, gone, deny}, 3, shardlimit.FromRedis, false, true},
		{"one denies, two are away", []answer{deny, gone, gone}, 3, shardlimit.FromRedis, false, false},
		{"three are away", []answer{gone, gone, gone}, 3, shardlimit.FromFallback, true, true},
		{"a reply is lost", []answer{lost}, 1, shardlimit.FromFallback, true, false},
		{"one is away, then a reply is lost", []answer{gone, lost}, 2, shardlimit.FromFallback, true, false},
		{"one denies, then a reply is lost", []answer{deny, lost}, 2, shardlimit.FromRedis, false, false},
		{"one is misconfigured", []answer{deny, misconfigured}, 2, 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "parts", Limits: []shardlimit.Limit{shardlimit.PerDay(400)}, Parts: 16, Timeout: patient})
			for verb, ask := range map[string]func(l *shardlimit.Limiter) (shardlimit.Result, error){
				"Allow": func(l *shardlimit.Limiter) (shardlimit.Result, error) { return l.Allow(t.Context(), p, "a") },
				"AllowEach": func(l *shardlimit.Limiter) (shardlimit.Result, error) {
					o := l.AllowEach(t.Context(), ask(p, "a"))[0]
					return o.Result, o.Err
				},
				"AllowAll": func(l *shardlimit.Limiter) (shardlimit.Result, error) {
					all, err := l.AllowAll(t.Context(), ask(p, "a"))
					return append(all, shardlimit.Result{})[0], err
				},
			} {
				s := &told{answers: tt.tell}
				l := on(s.run)
				r, err := ask(l)
				if (err != nil) != (tt.source == 0) || r.Source != tt.source || r.Allowed != tt.passes || (r.Failure != nil) != (tt.source == shardlimit.FromFallback) {
					t.Errorf("%s = %+v, %v; want it by %v, allowed %v", verb, r, err, tt.source, tt.passes)
				}
				if n := l.Inspect().Counters; n.Allowed+n.Denied+n.FallbackAllowed+n.FallbackDenied+n.Errors != 1 {
					t.Errorf("%s: Counters = %+v, want one decision", verb, n)
				}
				if len(s.calls) != tt.calls {
					t.Errorf("%s: %d calls, want %d", verb, len(s.calls), tt.calls)
				}
				keys := map[string]bool{}
				for i, c := range s.calls {
					if waits := i == 2 && tt.nobody; c.Elsewhere == waits {
						t.Errorf("%s: call %d: Elsewhere = %v", verb, i, c.Elsewhere)
					}
					keys[c.Key] = true
				}
				if len(keys) != tt.calls {
					t.Errorf("%s: calls for %v, want a part each", verb, keys)
				}
			}
		})
	}
}

// The Timeout is for all parts that are asked, and not for each.
func TestPartsShareTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		l := on(func(ctx context.Context, _ *scripts.Call) (scripts.Reply, error) {
			calls++
			select {
			case <-time.After(30 * time.Millisecond):
			case <-ctx.Done():
			}
			return scripts.Reply{}, errNeverRan
		})
		began := time.Now()
		r := allow(t, l, inParts(8, shardlimit.PerDay(100)), "a")
		if took := time.Since(began); took != 50*time.Millisecond || r.Failure == nil || calls != 2 {
			t.Errorf("Allow took %v and %d calls, %+v; want the mode's answer after 50ms and 2 calls", took, calls, r)
		}
	})
}

func TestProcessesPreferDifferentParts(t *testing.T) {
	p := inParts(16, shardlimit.PerDay(1000))
	preferred := map[string]bool{}
	for range 50 {
		s := &told{}
		l := on(s.run)
		for range 5 {
			allow(t, l, p, "a")
		}
		for _, c := range s.calls {
			if c.Key != s.calls[0].Key {
				t.Fatalf("one process asked %q first, and then %q", s.calls[0].Key, c.Key)
			}
		}
		preferred[s.calls[0].Key] = true
	}
	if len(preferred) < 8 {
		t.Errorf("50 processes prefer %d of 16 parts", len(preferred))
	}
}

func TestPartsOfAllowAllAreGivenBack(t *testing.T) {
	ctx := t.Context()
	for name, limits := range kinds(40, long) {
		t.Run(name, func(t *testing.T) {
			l := local(t, shardlimit.Config{})
			p, once := inParts(4, limits...), policy(t, shardlimit.Per(1, long))
			for i := range 3 {
				r, err := l.AllowAll(ctx, shardlimit.Request{Policy: p, Subject: "a", Cost: 4}, ask(p, "a"), ask(once, "b"))
				if err != nil || r[0].Allowed != (i == 0) || r[1].Allowed != (i == 0) {
					t.Errorf("AllowAll %d = %+v, %v", i, r, err)
				}
				if left := result(t)(l.Peek(ctx, p, "a")).Remaining; left != 35 {
					t.Errorf("AllowAll %d: %d left, want 35", i, left)
				}
			}
			var passed int64
			for range 2000 {
				r := l.AllowEach(ctx, ask(p, "a"), ask(p, "a"))
				passed += r[0].Granted + r[1].Granted
			}
			if passed != 35 {
				t.Errorf("AllowEach passed %d, want 35", passed)
			}
		})
	}
}

func TestShareKnowsNoParts(t *testing.T) {
	ctx := t.Context()
	l := failing(errNeverRan)
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "local", Limits: []shardlimit.Limit{shardlimit.Per(400, long)}, Parts: 40, OnFailure: shardlimit.FailLocal(0.05),
	})
	var last shardlimit.Result
	for i := range 21 {
		r := allow(t, l, p, "a")
		if r.Allowed != (i < 20) || r.Source != shardlimit.FromFallback || r.Failure == nil {
			t.Fatalf("Allow %d = %+v, want 20 by the share", i, r)
		}
		if r.Allowed {
			last = r
		}
	}
	if err := l.Refund(ctx, last); err != nil {
		t.Error(err)
	}
	if r := allow(t, l, p, "a"); !r.Allowed {
		t.Errorf("Allow after a refund = %+v", r)
	}
	if err := l.Reset(ctx, p, "a"); err == nil {
		t.Error("Reset: no error, though no part answers")
	}
	if r := result(t)(l.Peek(ctx, p, "a")); r.Remaining != 20 || r.Source != shardlimit.FromFallback {
		t.Errorf("Peek after Reset = %+v, want 20 of the share", r)
	}
}

func TestShadowOfPartsAllows(t *testing.T) {
	l := local(t, shardlimit.Config{})
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "shadow", Limits: []shardlimit.Limit{shardlimit.Per(40, long)}, Parts: 2, Shadow: true,
	})
	for i := range 60 {
		if r := allow(t, l, p, "a"); !r.Allowed || r.Granted != 1 || r.Shadowed != (i >= 40) {
			t.Fatalf("Allow %d = %+v, want it shadowed from 40 on", i, r)
		}
	}
	if n := l.Inspect().Counters; n.Shadowed != 20 || n.Allowed != 60 {
		t.Errorf("Counters = %+v, want 20 of 60 shadowed", n)
	}
}
