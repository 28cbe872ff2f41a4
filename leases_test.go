package shardlimit_test

import (
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/crowd"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/memory"
)

// Four processes, leases auto, a key of each algorithm at 1,000/s, demand 3,000/s:
// over 0; under at most 2 % against a store that lends nothing, fed the same
// arrivals. gcra and sliding_log are never leased; they, and all without leases,
// have under 0.
func TestLeasesNeitherExceedNorStarve(t *testing.T) {
	for _, mode := range []shardlimit.LeaseMode{shardlimit.LeaseAuto, shardlimit.LeaseOff} {
		t.Run(mode.String(), func(t *testing.T) {
			const rate, demand = 1000, 3000
			of, span := leasable, *crowdFor
			if mode == shardlimit.LeaseAuto { // a bucket keeps some of its burst, once: in 10 s it is 1 %
				of, span = algorithms, max(span, 10*time.Second)
			}
			share := float64(demand) / float64(*crowdProcesses)
			g := gather(t, redistest.Shared(t), span, hotKeys(share, mode, each(rate, time.Second, of)...)...)
			g.startAll(*crowdProcesses, nil)
			reports := g.wait()
			for _, a := range g.accounts() {
				lent := mode == shardlimit.LeaseAuto && slices.Contains(leasable, a.Key.Limit.Algorithm)
				judgeCrowd(t, &a, reports, lent)
			}
		})
	}
}

// lateness is how long requests were made after they were due, at worst, at the
// end; and the units that all instances could not give back in time.
func lateness(reports []crowd.Report) (late time.Duration, forgotten int64) {
	for _, r := range reports {
		late, forgotten = max(late, r.Late), forgotten+r.Counts.Forgotten
	}
	return late, forgotten
}

// judgeCrowd judges what instances were answered about a key. Never may any pass
// beyond the limit. Where nothing is lent, every refusal must be right by the limit's
// own rule. Else no more may be missing than leases can hold, known denials hide and
// instances forgot; and little of what a store admits of the same requests. That is
// at their own times, and what waits while an instance stands still is had by whoever
// comes next: but at the very end nobody does, so as much is left out as refills in
// the time by which anything was late then.
func judgeCrowd(t *testing.T, a *crowd.Account, reports []crowd.Report, lent bool) {
	t.Helper()
	late, forgotten := lateness(reports)
	passed, fresh := a.Passed(), a.Fresh()
	leased := a.ByOutcome[crowd.Leased]
	slack := 1 + int64(float64(a.Key.Limit.Rate)*(late+a.Slowest()).Seconds()/a.Key.Limit.Period.Seconds())
	t.Logf("%s %s: %d asked, %d passed (%d of leases), %d of a store that lends nothing; slack %d; Redis decided %d",
		a.Key.Limit, a.Key.Leases, a.Asked(), passed, leased, fresh, slack, a.ByOutcome[crowd.Admitted]+a.ByOutcome[crowd.Denied])
	if over := a.Over(); over != 0 {
		t.Errorf("%s: over by %d", a.Key.Limit, over)
	}
	if lent != (leased > 0) {
		t.Errorf("%s: %d passed of leases", a.Key.Limit, leased)
	}
	if !lent {
		if free := a.Refused(); free > 0 {
			t.Errorf("%s: one was refused while %d were free", a.Key.Limit, free)
		}
		return
	}
	if under := a.Under(); under > forgotten {
		t.Errorf("%s: under by %d, want at most the %d forgotten", a.Key.Limit, under, forgotten)
	}
	if slack += forgotten + fresh/50; fresh-passed > slack {
		t.Errorf("%s: %d passed, want %d and at most %d less", a.Key.Limit, passed, fresh, slack)
	}
}

// The same at 1,000/s with a burst of 50, and 10 per minute on 10 instances:
// leases stay off, and all is as without.
func TestLeasesStayOffWhereTheyWouldStarve(t *testing.T) {
	for _, tt := range []struct {
		name      string
		processes int
		span      time.Duration
		keys      []crowd.Key
	}{
		{"a small burst", *crowdProcesses, *crowdFor, hotKeys(750, shardlimit.LeaseAuto, shardlimit.PerSecond(1000).WithBurst(50))},
		{"a small limit", 10, time.Second, hotKeys(50, shardlimit.LeaseAuto, each(10, time.Minute, algorithms)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := gather(t, redistest.Shared(t), tt.span, tt.keys...)
			g.startAll(tt.processes, nil)
			reports := g.wait()
			for _, a := range g.accounts() {
				judgeCrowd(t, &a, reports, false)
			}
		})
	}
}

// kill -9 of an instance that holds leases: its units count as spent. A bucket's
// hold up its refill until the epoch that they were lent in and the next have
// ended, each of a lease time, and no longer. A window's are free once windows
// come that do not count it.
func TestUnitsOfAKilledInstanceComeBack(t *testing.T) {
	const rate, period = 2000, 2 * time.Second
	inOrder := []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.FixedWindow, shardlimit.SlidingWindow}
	c := redistest.Shared(t)
	g := gather(t, c, time.Minute, hotKeys(400, shardlimit.LeaseAuto, each(rate, period, inOrder)...)...)
	l := newOn(t, redistest.Client(t, c, nil), shardlimit.Config{Prefix: g.order.Prefix, Timeout: patient})
	killed := g.killLeased(l) // whose units come back in this order
	for i, k := range g.order.Keys {
		back := killed[i].back(k.Limit)
		for now := killed[i].now; now < back; now = storedOf(t, l, k).now {
			<-time.After(time.Duration(back-now) * time.Microsecond)
		}
		r := result(t)(l.AllowAtMost(t.Context(), policyOfKey(k), k.Subject, rate))
		if r.Granted != rate {
			t.Errorf("%s: %+v at %d, want all of it: %+v", k.Limit, r, back, killed[i])
		}
	}
}

// stored is what Redis has of a key at a µs of its clock.
type stored struct {
	rule.State
	now int64
}

func storedOf(t *testing.T, l *shardlimit.Limiter, k crowd.Key) (s stored) {
	t.Helper()
	var err error
	if s.State, s.now, err = l.Stored(t.Context(), policyOfKey(k), k.Subject); err != nil {
		t.Fatal(err)
	}
	return s
}

// lent reports whether units are lent. Of a fixed window peek tells no more than
// that some are used.
func (s stored) lent(limit shardlimit.Limit) bool {
	return s.Lent > 0 || limit.Algorithm == shardlimit.FixedWindow && s.Used > 0
}

// back returns the µs at which nothing is used any more of a key that nobody asks
// for.
func (s stored) back(limit shardlimit.Limit) int64 {
	epoch, period := hotkey.LeaseTime.Microseconds(), limit.Period.Microseconds()
	switch limit.Algorithm {
	case shardlimit.TokenBucket:
		return (s.now/epoch+2)*epoch + int64(s.Used)/limit.Rate + 1
	case shardlimit.FixedWindow:
		return (s.now/period + 1) * period
	default: // the next window counts this one
		return (s.now/period + 2) * period
	}
}

// killLeased kills an instance that has leases of each key, and returns what is
// stored then.
func (g *gathering) killLeased(l *shardlimit.Limiter) (after []stored) {
	g.t.Helper()
	lent := func() (all bool) {
		after, all = nil, true
		for _, k := range g.order.Keys {
			s := storedOf(g.t, l, k)
			after, all = append(after, s), all && s.lent(k.Limit)
		}
		return all
	}
	for {
		p := g.start(func(o *crowd.Order) { o.Durable = true })
		file := g.files[len(g.files)-1]
		for !leasedAll(g.of(file)) || !lent() {
			<-time.After(10 * time.Millisecond)
		}
		if err := p.Kill(); err != nil {
			g.t.Fatal(err)
		}
		lent()      // what it had sent has come by now
		if lent() { // unless a window ended, or a lease was settled, just then
			return after
		}
	}
}

func leasedAll(accounts []crowd.Account) bool {
	return !slices.ContainsFunc(accounts, func(a crowd.Account) bool { return a.ByOutcome[crowd.Leased] == 0 })
}

func policyOfKey(k crowd.Key) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: k.Policy, Limits: []shardlimit.Limit{k.Limit}})
}

// A million decisions about one hot key: at most 0.1 % of them reach Redis. They
// take a lease time at rest, and a hundred on a machine that has much else to do,
// with a few calls in each: then another million may be faster.
func TestAMillionHotDecisionsHardlyReachRedis(t *testing.T) {
	const decisions, goroutines = 1_000_000, 8
	c := redistest.Shared(t)
	l := newLimiter(t, c)
	p := policy(t, shardlimit.PerSecond(plenty))
	decide := func(n int) {
		var asking sync.WaitGroup
		for range goroutines {
			asking.Go(func() {
				for i := range n / goroutines {
					if r, err := l.Allow(t.Context(), p, "s"); err != nil || !r.Allowed {
						t.Errorf("%+v, %v", r, err)
						return
					}
					if i%64 == 0 { // as callers do who have anything else to do
						runtime.Gosched()
					}
				}
			})
		}
		asking.Wait()
	}
	untilLeased(t, l, p)
	decide(decisions / 10) // until it is known how hot the key is
	var calls []int64
	for range 5 {
		before := scriptCalls(t, c)
		decide(decisions)
		calls = append(calls, scriptCalls(t, c)-before)
		if calls[len(calls)-1] <= decisions/1000 {
			return
		}
	}
	t.Errorf("%d calls for %d decisions each, want at most 0.1 %% once; %+v", calls, decisions, l.Inspect().HotKeys.Counts)
}

// scriptCalls returns how many scripts the nodes have run since they started.
func scriptCalls(t *testing.T, c *rediscluster.Cluster) (calls int64) {
	t.Helper()
	for _, n := range c.Nodes() {
		info, err := n.Client().Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range calledOften.FindAllStringSubmatch(info, -1) {
			n, err := strconv.ParseInt(of[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			calls += n
		}
	}
	return calls
}

var calledOften = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// While there is burst left nobody is told to wait for the refill, and nothing is
// refused, however much is asked for.
func TestNothingIsRefusedOfAFullBucket(t *testing.T) {
	store := memory.New()
	l, err := shardlimit.NewFlying(shardlimit.Backend{Run: store.Do, Stop: stops(store.Close)}, shardlimit.Config{Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	p := policy(t, shardlimit.PerSecond(1000).WithBurst(1_000_000))
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 50_000 {
				if r, err := l.Allow(t.Context(), p, "s"); err != nil || !r.Allowed {
					t.Errorf("%+v, %v", r, err)
					return
				}
			}
		})
	}
	asking.Wait()
	if counts := l.Inspect().HotKeys.Counts; counts.Leased == 0 {
		t.Errorf("%+v, want leases", counts)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
