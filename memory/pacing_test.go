package memory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/leasetest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/scripts"
)

// TestPacedLeasesNeitherExceedNorStarve lets processes share one key in virtual
// time, and gives the same arrivals to a store that lends nothing.
//
// The processes' shares of the demand are unequal (Zipf). Who does not get a lease
// asks for single requests: where shares are small or a window is nearly used up,
// most do.
func TestPacedLeasesNeitherExceedNorStarve(t *testing.T) {
	rates := []int64{1000, 10_000}
	if raced {
		rates = rates[:1]
	}
	for _, a := range lendable {
		for _, rate := range rates {
			for _, processes := range []int{1, 4, 10, 100} {
				for _, demand := range []float64{0.5, 1, 3} {
					limit := rule.Limit{Algorithm: a, Rate: rate, Period: second, Burst: rate}
					t.Run(fmt.Sprintf("%v/%d per second/%d processes/demand %.1f", a, rate, processes, demand), func(t *testing.T) {
						newMarket(limit, processes).run(t, demand)
					})
				}
			}
		}
	}
}

// market is processes that share one key.
type market struct {
	limit     rule.Limit
	plan      *scripts.Plan
	rng       *rand.Rand
	borrowers []*borrower
	weights   []float64 // of the borrowers, summed up
	leased    *Store
	plain     *Store // that lends nothing
}

func newMarket(limit rule.Limit, processes int) *market {
	m := &market{limit: limit, plan: scripts.NewPlan(limit), rng: rand.New(rand.NewPCG(1, 2)), leased: New(), plain: New()}
	sum := 0.0
	for i := range processes {
		m.borrowers = append(m.borrowers, &borrower{store: m.leased, plan: m.plan, rng: m.rng, ends: math.MaxInt64, asked: t0 - leaseTime})
		sum += 1 / float64(i+1)
		m.weights = append(m.weights, sum)
	}
	return m
}

// pick returns the process that a request meets.
func (m *market) pick() *borrower {
	x, i := m.rng.Float64()*m.weights[len(m.weights)-1], 0
	for m.weights[i] < x {
		i++
	}
	return m.borrowers[i]
}

// run lets requests arrive for 10 s, at random and demand times as many as the
// rate.
func (m *market) run(t *testing.T, demand float64) {
	const span = 10 * second
	ledger := leasetest.NewLedger(m.limit, t0)
	var arrivals, admitted, plainly float64
	gap, swept := 1e6/(demand*float64(m.limit.Rate)), int64(t0)
	for at := float64(t0); at < t0+span; at += m.rng.ExpFloat64() * gap {
		now := int64(at)
		for ; swept < now; swept += leaseTime / 4 {
			for _, b := range m.borrowers {
				b.sweep(swept)
			}
		}
		arrivals++
		if m.pick().allow(now) {
			admitted++
			if err := ledger.Admit(now, 1); err != nil {
				t.Fatal(err)
			}
		}
		plainly += float64(take(m.plain, m.plan, now).Granted)
	}
	var asks, sweeps, takes float64
	for _, b := range m.borrowers {
		asks, sweeps, takes = asks+b.asks, sweeps+b.sweeps, takes+b.takes
	}
	per, under := float64(len(m.borrowers))*span/float64(leaseTime), 100*(1-admitted/plainly)
	t.Logf("under %.2f %%; %.2f asks and %.2f settlements alone a process and lease time; a decision: %.4f lease calls, %.4f others",
		under, asks/per, sweeps/per, (asks+sweeps)/arrivals, takes/arrivals)
	if under > 2 {
		t.Errorf("%.0f admitted, %.0f by a store that lends nothing: %.2f %% under, want 2 at most", admitted, plainly, under)
	}
	if asks > 2.5*per || asks+sweeps > 3*per {
		t.Errorf("%.2f asks and %.2f settlements alone a process and lease time, want at most 2.5, 3 together", asks/per, sweeps/per)
	}
}

// leaseTime is the protocol's, in µs.
var leaseTime = rule.LeaseTime.Microseconds()

// borrower is what a process does with one hot key, as small as it can be: it
// spends a lease, renews it when a fifth is left, and asks for single units where
// it gets none.
type borrower struct {
	store *Store
	plan  *scripts.Plan
	rng   *rand.Rand

	left, size, lentAt, ends int64 // the lease
	unsettled                []scripts.Settlement
	offered                  int64   // units, since it last asked
	asked                    int64   // µs
	rate                     float64 // units/µs
	denied, unleased         int64   // µs until which it denies; until which it asks for no lease

	asks, sweeps, takes float64
}

// allow decides about one unit.
func (b *borrower) allow(now int64) bool {
	b.offered++
	if now >= b.ends {
		b.close()
	}
	if b.left > 0 {
		b.left--
		if b.left*5 <= b.size && now >= b.unleased {
			b.ask(now)
		}
		return true
	}
	if now >= b.denied && now >= b.unleased {
		b.ask(now)
	}
	switch {
	case b.left > 0:
		b.left--
		return true
	case now < b.denied:
		return false
	default:
		return b.take(now)
	}
}

// close ends the lease, to be settled by the next ask.
func (b *borrower) close() {
	if b.size > 0 {
		b.unsettled = append(b.unsettled, scripts.Settlement{At: b.lentAt, Size: b.size, Unspent: b.left})
	}
	b.left, b.size, b.ends = 0, 0, math.MaxInt64
}

// ask asks for a lease, and closes the one it has where it gets another.
func (b *borrower) ask(now int64) {
	past := float64(now - b.asked)
	b.rate += (1 - math.Exp(-past/float64(leaseTime))) * (float64(b.offered)/max(past, 1) - b.rate)
	reply := b.lend(now, scripts.Ask{Want: int64(math.Ceil(b.rate * float64(leaseTime) / 2 * 1.2)), Offered: b.offered})
	b.asks++
	b.offered, b.asked = 0, now
	b.unleased = now + leaseTime/2
	if reply.Granted > 0 || reply.Next > 0 {
		b.denied = now + reply.Next*4/5 + b.rng.Int64N(reply.Next*2/5+1)
		b.unleased = b.denied
	}
	if reply.Granted > 0 {
		b.close()
		b.left, b.size, b.lentAt = reply.Granted, reply.Granted, reply.Now
		b.ends = now + b.plan.LentFor(reply.Now).Microseconds()
	}
}

// lend sends an ask, with what is to be settled.
func (b *borrower) lend(now int64, ask scripts.Ask) scripts.Reply {
	n := min(len(b.unsettled), scripts.MaxSettlements)
	ask.Settle, b.unsettled = b.unsettled[:n], b.unsettled[n:]
	c := &scripts.Call{Plan: b.plan, Op: scripts.Lease, Key: "k", Lease: ask, Clock: testclock.At(now)}
	c.Window = c.InWindow(now)
	reply, _ := b.store.Do(context.Background(), c)
	return reply
}

// sweep settles what no ask has settled for half a lease time.
func (b *borrower) sweep(now int64) {
	if now >= b.ends {
		b.close()
	}
	for len(b.unsettled) > 0 && now-b.asked > leaseTime/2 {
		b.lend(now, scripts.Ask{})
		b.sweeps++
	}
}

func (b *borrower) take(now int64) bool {
	b.takes++
	r := take(b.store, b.plan, now)
	if r.Granted == 0 {
		b.denied = now + min(b.plan.Limits()[0].RetryAfter(r.State(0), r.Now, 1), 250_000)
	}
	return r.Granted > 0
}

func take(s *Store, p *scripts.Plan, now int64) scripts.Reply {
	reply, _ := s.Do(context.Background(), &scripts.Call{Plan: p, Key: "k", Cost: 1, Count: 1, Clock: testclock.At(now)})
	return reply
}
