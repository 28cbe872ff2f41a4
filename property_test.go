package shardlimit_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Whatever is asked for, and when: in any span no limit passes more than its
// algorithm allows, and nothing is denied that all limits have room for.
func TestRandomPoliciesPassWhatTheirLimitsAllow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		limits := randomLimits(rng)
		p, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: "random", Limits: limits})
		if err != nil {
			continue // two of them are equal
		}
		if !passesWhatIsAllowed(t, p, rng) {
			return
		}
	}
}

func randomLimits(rng *rand.Rand) []shardlimit.Limit {
	limits := make([]shardlimit.Limit, 1+rng.IntN(3))
	for i := range limits {
		// Long enough for gcra.
		rate := 1 + rng.Int64N(50)
		period := time.Duration(rate*1000+rng.Int64N(5_000_000)) * time.Microsecond
		a := algorithms[rng.IntN(len(algorithms))]
		if a == shardlimit.SlidingLog && len(limits) > 1 {
			a = shardlimit.SlidingWindow
		}
		limits[i] = shardlimit.Per(rate, period).WithAlgorithm(a)
		if a == shardlimit.TokenBucket || a == shardlimit.GCRA {
			limits[i].Burst = rng.Int64N(50)
		}
	}
	return limits
}

// passesWhatIsAllowed makes random calls and holds each answer against ledgers.
func passesWhatIsAllowed(t *testing.T, p *shardlimit.Policy, rng *rand.Rand) bool {
	t.Helper()
	l := local(t, shardlimit.Config{})
	set := setClock(l)
	var ledgers []ledger
	most := int64(1) << 40 // units that all limits can hold
	rounded := false
	for _, limit := range p.Limits() {
		capacity := limit.Burst
		if capacity == 0 {
			capacity = limit.Rate
		}
		most = min(most, capacity)
		ledgers = append(ledgers, newLedger(limit, capacity))
		rounded = rounded || limit.Algorithm == shardlimit.GCRA // its interval, up
	}
	now := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	for range 300 {
		if rng.IntN(4) > 0 {
			now += rng.Int64N(400_000)
		}
		set(time.UnixMicro(now))
		cost := 1 + rng.Int64N(most)
		ask := l.AllowN
		if rng.IntN(2) == 0 {
			ask = l.AllowAtMost
		}
		r, err := ask(t.Context(), p, "a", cost)
		if err != nil {
			t.Fatalf("%v: cost %d: %v", p.Limits(), cost, err)
		}
		granted, more := r.Granted, r.Granted+r.Remaining+1
		for _, led := range ledgers {
			if granted > 0 && !led.fits(now, granted) {
				t.Errorf("%v: at %d %d units passed: too many", p.Limits(), now, granted)
				return false
			}
		}
		full := func(led ledger) bool { return !led.fits(now, more) }
		if !rounded && !slices.ContainsFunc(ledgers, full) {
			t.Errorf("%v: at %d, cost %d: %+v, but %d units fit", p.Limits(), now, cost, r, more)
			return false
		}
		for _, led := range ledgers {
			led.add(now, granted)
		}
	}
	return true
}

// ledger knows what one limit has passed, and decides by its definition, in
// whole numbers.
type ledger interface {
	fits(now, units int64) bool
	add(now, units int64)
}

func newLedger(l shardlimit.Limit, capacity int64) ledger {
	period := l.Period.Microseconds()
	switch l.Algorithm {
	case shardlimit.TokenBucket, shardlimit.GCRA:
		return &bucketLedger{rate: l.Rate, period: period, burst: capacity}
	case shardlimit.SlidingLog:
		return &logLedger{rate: l.Rate, period: period}
	default:
		return &windowLedger{rate: l.Rate, period: period, passed: map[int64]int64{}, sliding: l.Algorithm == shardlimit.SlidingWindow}
	}
}

// bucketLedger holds if and only if in every span at most burst + rate x span
// have passed.
type bucketLedger struct{ rate, period, burst, used, at int64 } // used: units x period

func (b *bucketLedger) level(now int64) int64 { return max(b.used-(now-b.at)*b.rate, 0) }

func (b *bucketLedger) fits(now, units int64) bool {
	if b.used == 0 {
		b.at = now
	}
	return b.level(now)+units*b.period <= b.burst*b.period
}

func (b *bucketLedger) add(now, units int64) {
	b.used, b.at = b.level(now)+units*b.period, now
}

type logLedger struct {
	rate, period int64
	passed       []int64 // when, a unit each
}

func (g *logLedger) fits(now, units int64) bool {
	for _, at := range g.passed {
		if at > now-g.period {
			units++
		}
	}
	return units <= g.rate
}

func (g *logLedger) add(now, units int64) {
	for range units {
		g.passed = append(g.passed, now)
	}
}

type windowLedger struct {
	rate, period int64
	sliding      bool
	passed       map[int64]int64 // units, by window
}

func (w *windowLedger) fits(now, units int64) bool {
	index, elapsed := now/w.period, now%w.period
	used := (w.passed[index] + units) * w.period
	if w.sliding {
		used += w.passed[index-1] * (w.period - elapsed)
	}
	return used <= w.rate*w.period
}

func (w *windowLedger) add(now, units int64) { w.passed[now/w.period] += units }
