package shardlimit_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// twoLimiters returns two that share their keys, as two instances do.
func twoLimiters(t *testing.T) (here, elsewhere *shardlimit.Limiter) {
	t.Helper()
	cfg := shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: patient}
	return newOn(t, client(t), cfg), newOn(t, client(t), cfg)
}

// lent is a policy of so many units of the algorithm that none is ever denied, and
// that leases are had of it.
func lent(t *testing.T, a shardlimit.Algorithm) *shardlimit.Policy {
	t.Helper()
	if a == shardlimit.TokenBucket {
		return policy(t, deep)
	}
	return policy(t, shardlimit.Per(plenty, spacious).WithAlgorithm(a))
}

// meter tells how many units of a subject were charged and not given back since it
// was made.
type meter struct {
	policy  *shardlimit.Policy
	subject string
	from    rule.State
}

// newMeter returns a meter of a policy of plenty. Of a bucket it charges half first:
// then that is never empty, and what it has refilled is known from the time that
// went by, to the unit.
func newMeter(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, subject string) *meter {
	t.Helper()
	m := &meter{policy: p, subject: subject}
	if p.Limits()[0].Algorithm == shardlimit.TokenBucket {
		result(t)(l.AllowAtMost(t.Context(), p, subject, plenty/2))
	}
	m.from = m.read(t, l)
	return m
}

func (m *meter) read(t *testing.T, l *shardlimit.Limiter) rule.State {
	t.Helper()
	s, _, err := l.Stored(t.Context(), m.policy, m.subject)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// units returns what l has stored of it.
func (m *meter) units(t *testing.T, l *shardlimit.Limiter) int64 {
	t.Helper()
	limit, to := m.policy.Limits()[0], m.read(t, l)
	more := to.Used - m.from.Used
	if limit.Algorithm != shardlimit.TokenBucket {
		return int64(more)
	}
	refilled := (to.At - m.from.At) * float64(limit.Rate)
	units := (more + refilled) / float64(limit.Period.Microseconds())
	if units != math.Trunc(units) {
		t.Errorf("%s: %v units were charged, want a whole number", m.subject, units)
	}
	return int64(units)
}

// untilLeased asks for single units of s until one comes from a lease, and returns
// that and how many there were.
func untilLeased(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy) (r shardlimit.Result, units int64) {
	t.Helper()
	for r.Source != shardlimit.FromLease {
		r = allow(t, l, p, "s")
		if !r.Allowed || r.Failure != nil {
			t.Fatalf("%+v, want it allowed by Redis or a lease", r)
		}
		units++
	}
	return r, units
}

// untilOver waits until all leases of l are over.
func untilOver(l *shardlimit.Limiter) {
	tick := time.NewTicker(hotkey.LeaseTime / 4)
	defer tick.Stop()
	for l.Inspect().HotKeys.Held > 0 {
		<-tick.C
	}
}

// used returns how many units of the policy Redis says are used.
func used(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, subject string) int64 {
	t.Helper()
	return p.Limits()[0].Rate - result(t)(l.Peek(t.Context(), p, subject)).Remaining
}

// Close with leases held: all unspent units are back in Redis.
func TestCloseGivesBackWhatLeasesHold(t *testing.T) {
	for _, a := range leasable {
		t.Run(a.String(), func(t *testing.T) {
			for closedInTime := false; !closedInTime; {
				closedInTime = closeWithLeases(t, lent(t, a))
			}
		})
	}
}

// closeWithLeases reports false if the machine stood still, and a lease was over
// before it was given back.
func closeWithLeases(t *testing.T, p *shardlimit.Policy) bool {
	t.Helper()
	here, elsewhere := twoLimiters(t)
	m := newMeter(t, elsewhere, p, "s")
	_, units := untilLeased(t, here, p)
	if err := here.Close(); err != nil {
		t.Fatal(err)
	}
	c := here.Inspect().HotKeys.Counts
	if c.Lent != c.Leased+c.GivenBack+c.Forgotten {
		t.Errorf("%+v, want all that was lent spent, given back or forgotten", c)
	}
	if got := m.units(t, elsewhere); got != units+c.Forgotten {
		t.Errorf("%d charged, want the %d that passed, and %d forgotten", got, units, c.Forgotten)
	}
	return c.GivenBack > 0 && c.Forgotten == 0
}

// Peek says what could still pass: here with what a lease has left, elsewhere
// without.
func TestPeekAddsTheLeaseOfItsOwnProcess(t *testing.T) {
	here, elsewhere := twoLimiters(t)
	p := lent(t, shardlimit.FixedWindow)
	_, units := untilLeased(t, here, p)
	for {
		before := here.Inspect().HotKeys.Held
		own, others := used(t, here, p, "s"), used(t, elsewhere, p, "s")
		if before == 0 || before != here.Inspect().HotKeys.Held { // it ended meanwhile
			_, n := untilLeased(t, here, p)
			units += n
			continue
		}
		if own != units || others != units+before {
			t.Errorf("%d used here and %d elsewhere, want %d, and the %d held besides", own, others, units, before)
		}
		return
	}
}

// A unit of a lease that is refunded serves again; once; whether its lease lives or
// is over; and by the Limiter that spent it alone.
func TestRefundOfALeasedUnit(t *testing.T) {
	for _, over := range []bool{false, true} {
		name := "in the lease"
		if over {
			name = "after the lease"
		}
		t.Run(name, func(t *testing.T) {
			here, elsewhere := twoLimiters(t)
			p := lent(t, shardlimit.FixedWindow)
			r, units := untilLeased(t, here, p)
			if err := elsewhere.Refund(t.Context(), r); !errors.Is(err, shardlimit.ErrOtherLimiter) {
				t.Errorf("Refund by another Limiter: %v", err)
			}
			if over {
				untilOver(here)
			}
			for range 2 {
				if err := here.Refund(t.Context(), r); err != nil {
					t.Errorf("Refund: %v", err)
				}
			}
			if err := here.Close(); err != nil {
				t.Fatal(err)
			}
			if got := used(t, elsewhere, p, "s"); got != units-1 {
				t.Errorf("%d used, want the %d that passed but one", got, units)
			}
		})
	}
}

// Charge into debt while leases are out: what is lent is spent, and then nothing
// passes.
func TestChargeIntoDebtWhileLeasesAreOut(t *testing.T) {
	for _, a := range leasable {
		t.Run(a.String(), func(t *testing.T) {
			here, elsewhere := twoLimiters(t)
			p := lent(t, a)
			untilLeased(t, here, p)
			result(t)(elsewhere.Charge(t.Context(), p, "s", 2*plenty))
			held := here.Inspect().HotKeys.Held
			for r := (shardlimit.Result{Allowed: true}); r.Allowed; held-- {
				if r = allow(t, here, p, "s"); r.Allowed && (r.Source != shardlimit.FromLease || held <= 0) {
					t.Fatalf("%+v passed in debt, %d units held", r, held)
				}
			}
			if r := allow(t, elsewhere, p, "s"); r.Allowed {
				t.Errorf("%+v passed in debt", r)
			}
		})
	}
}

// Reset here while another process holds a lease; then its settlement arrives: no
// unit more than the limit passes.
func TestResetWhileAnotherHoldsALease(t *testing.T) {
	for _, limit := range []shardlimit.Limit{
		shardlimit.PerSecond(1000),
		shardlimit.Per(plenty, spacious).WithAlgorithm(shardlimit.SlidingWindow),
		shardlimit.Per(plenty, spacious).WithAlgorithm(shardlimit.FixedWindow),
	} {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			here, elsewhere := twoLimiters(t)
			p := policy(t, limit)
			untilLeased(t, here, p)
			began := time.Now()
			if err := elsewhere.Reset(t.Context(), p, "s"); err != nil {
				t.Fatal(err)
			}
			var passed int64
			for range 3 {
				passed += allow(t, here, p, "s").Granted
			}
			if err := here.Close(); err != nil { // settles
				t.Fatal(err)
			}
			passed += result(t)(elsewhere.AllowAtMost(t.Context(), p, "s", limit.Rate)).Granted
			most := limit.Rate
			if limit.Algorithm == shardlimit.TokenBucket {
				most += int64(float64(limit.Rate) * time.Since(began).Seconds()) // refilled
			}
			if passed > most || passed < limit.Rate-limit.Rate/4 {
				t.Errorf("%d passed, want at most %d, and what was lent less", passed, most)
			}
		})
	}
}

// Another version of the policy spends nothing of its lease.
func TestALeaseIsOfOneVersionOfThePolicy(t *testing.T) {
	l, _ := twoLimiters(t)
	p := lent(t, shardlimit.SlidingWindow)
	untilLeased(t, l, p)
	lower, err := p.WithLimits(shardlimit.Per(1, spacious).WithAlgorithm(shardlimit.SlidingWindow))
	if err != nil {
		t.Fatal(err)
	}
	if r := allow(t, l, lower, "s"); r.Allowed || r.Source != shardlimit.FromRedis {
		t.Errorf("one of a limit that is used up: %+v", r)
	}
	if r := allow(t, l, p, "s"); !r.Allowed {
		t.Errorf("under the first limit: %+v", r)
	}
}

// What is decided here is counted as what Redis decides, whether somebody watches
// or not.
func TestCountersCountWhatIsDecidedHere(t *testing.T) {
	for _, watched := range []bool{false, true} {
		t.Run(word(watched, "watched", "alone"), func(t *testing.T) {
			var seen atomic.Int64
			var cfg shardlimit.Config
			if watched {
				cfg.Observer.Decided = func(context.Context, shardlimit.Decision) { seen.Add(1) }
			}
			store := memory.New()
			l, err := shardlimit.NewFlying(shardlimit.Backend{Run: store.Do, Stop: stops(store.Close)}, cfg)
			if err != nil {
				t.Fatal(err)
			}
			var asked int64
			busy := policy(t, shardlimit.PerSecond(plenty))
			trial := shardlimit.MustPolicy(shardlimit.PolicyConfig{
				Name: "trial", Limits: []shardlimit.Limit{shardlimit.Per(1, long)}, Shadow: true,
			})
			sources := map[shardlimit.Source]int{}
			var want shardlimit.Counters
			for ; asked < 20_000 || sources[shardlimit.FromLease] == 0; asked++ {
				for _, p := range []*shardlimit.Policy{busy, trial} {
					r := allow(t, l, p, "s")
					sources[r.Source]++
					switch {
					case r.Shadowed:
						want.Shadowed++
						want.Allowed++
					case r.Allowed:
						want.Allowed++
					default:
						want.Denied++
					}
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if got := l.Inspect().Counters; got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if sources[shardlimit.FromLease] == 0 || sources[shardlimit.FromDenial] == 0 {
				t.Errorf("decisions by source: %v", sources)
			}
			if watched && seen.Load() != 2*asked {
				t.Errorf("%d told, want %d", seen.Load(), 2*asked)
			}
		})
	}
}

// A settlement that comes after what was lent had been forgotten gives nothing back,
// and isn't counted as if it did.
func TestASettlementThatComesTooLateIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		run := func(_ context.Context, c *scripts.Call) (scripts.Reply, error) {
			if len(c.Lease.Settle) > 0 {
				time.Sleep(2 * hotkey.LeaseTime)
			}
			return store.Do(context.Background(), c)
		}
		backend := shardlimit.Backend{Run: run, Stop: func(time.Time) error { return nil }}
		var limiters []*shardlimit.Limiter
		for range 2 {
			l, err := shardlimit.NewFlying(backend, shardlimit.Config{})
			if err != nil {
				t.Fatal(err)
			}
			limiters = append(limiters, l)
		}
		here, elsewhere, p := limiters[0], limiters[1], lent(t, shardlimit.TokenBucket)
		m := newMeter(t, elsewhere, p, "s")
		units, from := int64(0), shardlimit.FromRedis
		for ; from != shardlimit.FromLease; units++ {
			from = allow(t, here, p, "s").Source
			time.Sleep(time.Millisecond)
		}
		closeInBubble(t, here)
		c := here.Inspect().HotKeys.Counts
		if c.Forgotten == 0 || c.GivenBack != 0 || c.Lent != c.Leased+c.Forgotten {
			t.Errorf("%+v, want all that was lent and not spent forgotten", c)
		}
		if got := m.units(t, elsewhere); got != units+c.Forgotten {
			t.Errorf("%d charged, want the %d that passed and the %d forgotten", got, units, c.Forgotten)
		}
		closeInBubble(t, elsewhere)
	})
}

func closeInBubble(t *testing.T, l *shardlimit.Limiter) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
