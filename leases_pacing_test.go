package shardlimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/leasetest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// One key at 1,000/s, leased by Limiters whose shares of the demand are unequal
// (Zipf), for 10 s of a bubble's time, in which no machine stands still: over 0, and
// under at most 2 % against a store that lends nothing, fed the same arrivals.
func TestLeasesNeitherExceedNorStarveWhereNothingIsLate(t *testing.T) {
	counts := []int{1, 4, 10}
	if raced {
		counts = counts[1:2]
	}
	for _, a := range leasable {
		for _, n := range counts {
			for _, demand := range []float64{0.5, 1, 3} {
				t.Run(fmt.Sprintf("%v/%d limiters/demand %.1f", a, n, demand), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { newMarket(t, a, n).run(t, demand) })
				})
			}
		}
	}
}

// market is Limiters that share one key.
type market struct {
	policy   *shardlimit.Policy
	limiters []*shardlimit.Limiter
	weights  []float64 // of the limiters, summed up
	plan     *scripts.Plan
	plain    *memory.Store // that lends nothing
	random   *rand.Rand

	mu                        sync.Mutex
	ledger                    *leasetest.Ledger
	admitted, leased, plainly int64
}

// trip is how long a call takes to a store. It decides at the end, so that the
// moment of each decision is known.
const trip = time.Millisecond

func newMarket(t *testing.T, a shardlimit.Algorithm, n int) *market {
	t.Helper()
	store := memory.New()
	backend := shardlimit.Backend{
		Run: func(_ context.Context, c *scripts.Call) (scripts.Reply, error) {
			time.Sleep(trip)
			return store.Do(context.Background(), c)
		},
		Stop: func(time.Time) error { return nil },
	}
	const rate = 1000
	limit := rule.Limit{Algorithm: algorithmOf[a], Rate: rate, Period: time.Second.Microseconds(), Burst: rate}
	m := &market{
		policy: policy(t, shardlimit.PerSecond(rate).WithAlgorithm(a)), plan: scripts.NewPlan(limit), plain: memory.New(),
		random: rand.New(rand.NewPCG(1, 2)), ledger: leasetest.NewLedger(limit, time.Now().UnixMicro()),
	}
	sum := 0.0
	for i := range n {
		l, err := shardlimit.NewFlying(backend, shardlimit.Config{Timeout: patient})
		if err != nil {
			t.Fatal(err)
		}
		sum += 1 / float64(i+1)
		m.limiters, m.weights = append(m.limiters, l), append(m.weights, sum)
	}
	return m
}

var algorithmOf = map[shardlimit.Algorithm]rule.Algorithm{
	shardlimit.TokenBucket: rule.TokenBucket, shardlimit.SlidingWindow: rule.SlidingWindow, shardlimit.FixedWindow: rule.FixedWindow,
}

// run lets requests arrive at random, demand times as many as the rate.
func (m *market) run(t *testing.T, demand float64) {
	t.Helper()
	var asking sync.WaitGroup
	gap := float64(time.Second) / 1000 / demand
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(time.Duration(m.random.ExpFloat64() * gap)) {
		l := m.pick()
		asking.Go(func() { m.ask(t, l) })
		m.plainly += m.askPlain()
	}
	asking.Wait()
	m.close(t)
	under := 100 * (1 - float64(m.admitted)/float64(m.plainly))
	t.Logf("%d passed, %d of them of leases, %d of a store that lends nothing: %.2f %% under", m.admitted, m.leased, m.plainly, under)
	if under > 2 {
		t.Errorf("%.2f %% under, want at most 2", under)
	}
	if m.leased == 0 {
		t.Error("nothing came of leases")
	}
}

// close closes the Limiters, and judges what became of what was lent. Redis knows a
// bucket's lease for a lease time at least, so that of one which is spent for as long
// a little may be forgotten, where nothing is late: a window's never is.
func (m *market) close(t *testing.T) {
	t.Helper()
	var lent, forgotten int64
	for _, l := range m.limiters {
		closeInBubble(t, l)
		c := l.Inspect().HotKeys.Counts
		lent, forgotten = lent+c.Lent, forgotten+c.Forgotten
		if !allSettled(l) {
			t.Errorf("%+v, want all that was lent spent, given back or forgotten", c)
		}
	}
	t.Logf("%d units lent, %d forgotten", lent, forgotten)
	most := int64(0)
	if m.policy.Limits()[0].Algorithm == shardlimit.TokenBucket {
		most = lent / 100
	}
	if forgotten > most {
		t.Errorf("%d of %d units forgotten, want at most %d", forgotten, lent, most)
	}
}

// pick returns the Limiter that a request meets.
func (m *market) pick() *shardlimit.Limiter {
	x, i := m.random.Float64()*m.weights[len(m.weights)-1], 0
	for m.weights[i] < x {
		i++
	}
	return m.limiters[i]
}

// ask asks for one unit, and has the ledger judge the answer.
func (m *market) ask(t *testing.T, l *shardlimit.Limiter) {
	r := allow(t, l, m.policy, "s")
	if r.Failure != nil {
		t.Error(r.Failure)
	}
	if !r.Allowed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted++
	if r.Source == shardlimit.FromLease {
		m.leased++
	}
	if err := m.ledger.Admit(time.Now().UnixMicro(), 1); err != nil {
		t.Error(err)
	}
}

// askPlain asks the store that lends nothing.
func (m *market) askPlain() int64 {
	call := &scripts.Call{Plan: m.plan, Key: "s", Cost: 1, Count: 1, Clock: testclock.At(time.Now().UnixMicro())}
	reply, _ := m.plain.Do(context.Background(), call) // without a bound nothing fails
	return reply.Granted
}
