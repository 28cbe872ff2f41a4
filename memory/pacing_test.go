package memory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/scripts"
)

// leaseTime is the protocol's, in µs.
var leaseTime = rule.LeaseTime.Microseconds()

// borrower is what a process does with one hot key, as small as it can be: it
// spends a lease, renews it at a fifth, and asks for single units where it gets
// none.
type borrower struct {
	store *Store
	plan  *scripts.Plan
	rng   *rand.Rand

	left, size, lentAt, ends int64 // the lease
	unsettled                []scripts.Settlement
	offered                  int64   // since it last asked
	asked                    int64   // µs
	rate                     float64 // units/µs
	denied                   int64   // µs until which it denies
	unleased                 int64   // µs until which it asks for no lease

	asks, sweeps, takes int
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
	want := int64(math.Ceil(b.rate * float64(leaseTime) / 2 * 1.2))
	reply := b.lend(now, want)
	b.offered, b.asked = 0, now
	switch {
	case reply.Granted > 0:
		b.close()
		b.left, b.size, b.lentAt = reply.Granted, reply.Granted, reply.Now
		b.ends = now + b.plan.LentFor(reply.Now).Microseconds()
		b.denied = now + b.jitter(reply.Next)
		b.unleased = b.denied
	case reply.Next > 0:
		b.denied = now + b.jitter(reply.Next)
		b.unleased = b.denied
	default:
		b.unleased = now + leaseTime/2
	}
}

func (b *borrower) jitter(micros int64) int64 { return micros*4/5 + b.rng.Int64N(micros*2/5+1) }

func (b *borrower) lend(now, want int64) scripts.Reply {
	if want > 0 {
		b.asks++
	} else {
		b.sweeps++
	}
	n := min(len(b.unsettled), scripts.MaxSettlements)
	c := &scripts.Call{
		Plan: b.plan, Op: scripts.Lease, Key: "k", Clock: testclock.At(now),
		Lease: scripts.Ask{Want: want, Offered: b.offered, Settle: b.unsettled[:n]},
	}
	c.Window = c.InWindow(now)
	reply, _ := b.store.Do(context.Background(), c)
	b.unsettled = b.unsettled[n:]
	return reply
}

// sweep settles what no ask has settled for.
func (b *borrower) sweep(now int64) {
	if now >= b.ends {
		b.close()
	}
	for len(b.unsettled) > 0 && now-b.asked > leaseTime/2 {
		offered := b.offered
		b.offered = 0
		b.lend(now, 0)
		b.offered = offered
	}
}

func (b *borrower) take(now int64) bool {
	b.takes++
	r := take(b.store, b.plan, now)
	if r.Granted == 0 {
		retry := b.plan.Limits()[0].RetryAfter(r.State(0), r.Now, 1)
		b.denied = now + min(retry, 250_000)
	}
	return r.Granted > 0
}

func take(s *Store, p *scripts.Plan, now int64) scripts.Reply {
	reply, _ := s.Do(context.Background(), &scripts.Call{Plan: p, Key: "k", Cost: 1, Count: 1, Clock: testclock.At(now)})
	return reply
}

func TestPacedLeasesNeitherExceedNorStarve(t *testing.T) {
	for _, alg := range []rule.Algorithm{rule.TokenBucket, rule.SlidingWindow, rule.FixedWindow} {
		for _, rate := range []int64{1000, 10_000} {
			for _, instances := range []int{1, 4, 10, 100} {
				for _, demand := range []float64{0.5, 1, 3} {
					name := fmt.Sprintf("%v/%d/%d/%.1f", alg, rate, instances, demand)
					t.Run(name, func(t *testing.T) {
						simulate(t, rule.Limit{Algorithm: alg, Rate: rate, Period: second, Burst: rate}, instances, demand)
					})
				}
			}
		}
	}
}

func simulate(t *testing.T, limit rule.Limit, instances int, demand float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	plan := scripts.NewPlan(limit)
	leased, plain := New(), New()
	bs := make([]*borrower, instances)
	weights := make([]float64, instances)
	sum := 0.0
	for i := range bs {
		bs[i] = &borrower{store: leased, plan: plan, rng: rng, ends: math.MaxInt64, asked: t0 - leaseTime}
		sum += 1 / float64(i+1)
		weights[i] = sum
	}
	const span = 10 * second
	var arrivals, admitted, reference int
	gap := 1e6 / (demand * float64(limit.Rate))
	swept := int64(t0)
	for at := float64(t0); at < t0+span; at += rng.ExpFloat64() * gap {
		now := int64(at)
		for swept+leaseTime/4 < now {
			swept += leaseTime / 4
			for _, b := range bs {
				b.sweep(swept)
			}
		}
		x := rng.Float64() * sum
		i := 0
		for weights[i] < x {
			i++
		}
		arrivals++
		if bs[i].allow(now) {
			admitted++
		}
		if take(plain, plan, now).Granted > 0 {
			reference++
		}
	}
	calls, sweeps, takes := 0, 0, 0
	for _, b := range bs {
		calls += b.asks
		sweeps += b.sweeps
		takes += b.takes
	}
	per := float64(instances) * span / float64(leaseTime)
	under := 1 - float64(admitted)/float64(reference)
	t.Logf("%7d arrivals, %6d admitted, under %5.2f %%, asks %.2f, sweeps %.2f N/leasetime, %.4f a decision; takes %.4f a decision", arrivals, admitted, 100*under,
		float64(calls)/per, float64(sweeps)/per, float64(calls+sweeps)/float64(arrivals), float64(takes)/float64(arrivals))
}
