package shardlimit_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// model is two limiters that are asked the same, each with a store of its own:
// one that knows what it was denied, and one that asks for everything.
type model struct {
	knows, asks *shardlimit.Limiter
	kept        [][2]shardlimit.Result // what both charged, and was not refunded
	refused     int64                  // cost that the store refused last
	known       int                    // denials that were known
	greater     int                    // of them, those of more than was refused last
}

// newModel returns a model in a bubble. trip is a call's way to the store of the
// one that knows, and back.
func newModel(t *testing.T, trip func()) *model {
	t.Helper()
	knows, asks := memory.New(), memory.New()
	run := func(ctx context.Context, call *scripts.Call) (scripts.Reply, error) {
		trip()
		defer trip()
		return knows.Do(ctx, call)
	}
	l, err := shardlimit.NewFlying(shardlimit.Backend{Run: run, Stop: stops(knows.Close)}, shardlimit.Config{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m := &model{knows: l, asks: shardlimit.NewOnBackend(shardlimit.Backend{Run: asks.Do, Stop: stops(asks.Close)})}
	t.Cleanup(func() {
		closeInBubble(t, m.knows)
		closeInBubble(t, m.asks)
	})
	return m
}

// unleased returns a policy that lends nothing.
func unleased(limits []shardlimit.Limit) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "api", Limits: limits, Leases: shardlimit.LeaseOff})
}

// onModel runs a test for each kind of limits, of a subject that is asked for now
// and then, and of one that is asked for often.
func onModel(t *testing.T, test func(t *testing.T, p *shardlimit.Policy, random *rand.Rand, often bool)) {
	for name, limits := range kinds(20, time.Second) {
		for _, often := range []bool{false, true} {
			t.Run(name+"/"+word(often, "hot", "cold"), func(t *testing.T) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				synctest.Test(t, func(t *testing.T) {
					test(t, unleased(limits), rand.New(rand.NewPCG(seed, 0)), often)
				})
			})
		}
	}
}

// pause is from one request to the next.
func pause(random *rand.Rand, often bool) time.Duration {
	most := 200_000
	if often {
		most = 20_000
	}
	return time.Duration(random.IntN(most)) * time.Microsecond
}

// What is answered of a denial that is known is what the store would answer then,
// to the µs, whatever the cost, and whatever passed or came back since.
func TestWhatIsKnownIsWhatTheStoreWouldSay(t *testing.T) {
	onModel(t, func(t *testing.T, p *shardlimit.Policy, random *rand.Rand, often bool) {
		m := newModel(t, func() {})
		for range 3000 {
			time.Sleep(pause(random, often))
			switch few, many := 1+random.Int64N(2), 1+random.Int64N(20); random.IntN(16) {
			case 0:
				if random.IntN(5) == 0 {
					m.reset(t, p)
				}
			case 1:
				m.refund(t)
			case 2:
				m.ask(t, p, many, (*shardlimit.Limiter).AllowAtMost)
			case 3, 4, 5, 6, 7:
				m.ask(t, p, few, (*shardlimit.Limiter).AllowN)
			default:
				m.ask(t, p, many, (*shardlimit.Limiter).AllowN)
			}
		}
		if m.known < 30 || m.greater < 10 && p.Limits()[0].Algorithm != shardlimit.SlidingLog {
			t.Errorf("%d were known to be denied, %d of them of more than Redis had refused", m.known, m.greater)
		}
	})
}

// ask asks both, and compares.
func (m *model) ask(t *testing.T, p *shardlimit.Policy, cost int64,
	verb func(*shardlimit.Limiter, context.Context, *shardlimit.Policy, string, int64) (shardlimit.Result, error),
) {
	t.Helper()
	got, want := result(t)(verb(m.knows, t.Context(), p, "s", cost)), result(t)(verb(m.asks, t.Context(), p, "s", cost))
	synctest.Wait() // the cache has taken in what was denied
	if got.Allowed != want.Allowed || got.RetryAfter != want.RetryAfter || got.ResetAfter != want.ResetAfter {
		t.Fatalf("cost %d: %+v, want %+v", cost, got, want)
	}
	switch {
	case got.Allowed:
		m.kept = append(m.kept, [2]shardlimit.Result{got, want})
	case got.Source != shardlimit.FromDenial:
		m.refused = cost
	default:
		m.known++
		if cost > m.refused {
			m.greater++
		}
	}
}

// refund gives back what was charged last.
func (m *model) refund(t *testing.T) {
	t.Helper()
	if len(m.kept) == 0 {
		return
	}
	last := m.kept[len(m.kept)-1]
	m.kept = m.kept[:len(m.kept)-1]
	for i, l := range []*shardlimit.Limiter{m.knows, m.asks} {
		if err := l.Refund(t.Context(), last[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *model) reset(t *testing.T, p *shardlimit.Policy) {
	t.Helper()
	for _, l := range []*shardlimit.Limiter{m.knows, m.asks} {
		if err := l.Reset(t.Context(), p, "s"); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever sleeps the RetryAfter that it was told passes, if nobody else asks
// meanwhile: however many calls of other costs were under way just before, and
// whichever of them was answered first.
func TestWhoSleepsRetryAfterPasses(t *testing.T) {
	onModel(t, func(t *testing.T, p *shardlimit.Policy, random *rand.Rand, often bool) {
		m := newModel(t, func() { time.Sleep(rand.N(3 * time.Millisecond)) })
		known := 0
		for range 200 {
			storm(t, m.knows, p, random, often)
			cost := 1 + random.Int64N(20)
			r := result(t)(m.knows.AllowN(t.Context(), p, "s", cost))
			for n := random.IntN(3); n > 0 && !r.Allowed; n-- {
				result(t)(m.knows.AllowN(t.Context(), p, "s", 1+random.Int64N(20)))
				r = result(t)(m.knows.AllowN(t.Context(), p, "s", cost))
			}
			if r.Allowed {
				continue
			}
			if r.Source == shardlimit.FromDenial {
				known++
			}
			time.Sleep(r.RetryAfter)
			if got := result(t)(m.knows.AllowN(t.Context(), p, "s", cost)); !got.Allowed {
				t.Fatalf("cost %d: %+v, then, %v later: %+v", cost, r, r.RetryAfter, got)
			}
		}
		if known < 10 {
			t.Errorf("%d were known to be denied", known)
		}
	})
}

// storm has many requests of all costs decided side by side.
func storm(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, random *rand.Rand, often bool) {
	n := 4
	if often {
		n = 20
	}
	var all sync.WaitGroup
	for range n {
		wait, cost, verb := pause(random, true), 1+random.Int64N(20)*random.Int64N(2), random.IntN(8)
		all.Go(func() {
			time.Sleep(wait)
			var err error
			switch verb {
			case 0:
				_, err = l.AllowAtMost(t.Context(), p, "s", cost)
			case 1:
				l.AllowEach(t.Context(), shardlimit.Request{Policy: p, Subject: "s"}, shardlimit.Request{Policy: p, Subject: "s", Cost: cost})
			case 2:
				_, err = l.AllowAll(t.Context(), shardlimit.Request{Policy: p, Subject: "s", Cost: cost})
			default:
				_, err = l.AllowN(t.Context(), p, "s", cost)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A larger cost than Redis refused is denied here without an allocation, too.
func TestAKnownDenialOfMoreAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	for name, limits := range kinds(20, time.Second) {
		if name == shardlimit.SlidingLog.String() {
			continue // it knows no cost but its own
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, p := newModel(t, func() {}), unleased(limits)
				for _, cost := range []int64{15, 10} {
					result(t)(m.knows.AllowN(t.Context(), p, "s", cost))
				}
				synctest.Wait()
				var r shardlimit.Result
				allocs := testing.AllocsPerRun(100, func() { r, _ = m.knows.AllowN(t.Context(), p, "s", 12) })
				if r.Source != shardlimit.FromDenial || allocs != 0 {
					t.Errorf("%v allocations, %+v; want 0, and a denial that is known", allocs, r)
				}
			})
		})
	}
}
