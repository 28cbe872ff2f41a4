package limitertest

import (
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit"
)

// peekForetells holds random histories, whose clock steps either way, against
// what Peek says of them: what remains passes and one unit more does not, and a
// denial waits as long as Peek does. Limits of a thousand units and more are
// left out of the steps: a sliding_log pulls back so many entries at a time.
func peekForetells(b *backend) {
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	b.each(func(b *backend, k kind) {
		for _, limit := range []shardlimit.Limit{
			shardlimit.PerMinute(3),
			shardlimit.Per(7, 997*time.Millisecond),
			shardlimit.Per(200, 1_000_003*time.Microsecond),
			shardlimit.Per(13, time.Millisecond),
			shardlimit.PerHour(40),
		} {
			b.run(limit.String(), func(b *backend) {
				p := b.policy(k.limits(limit.Rate, limit.Period)...)
				at := time.Hour + below(rng, limit.Period)
				for range 40 {
					at = max(at+stepped(rng, limit.Period), 0)
					b.at(at)
					foretold(b, p, limit.Rate, rng)
				}
			})
		}
	})
}

// stepped returns how far a clock goes: a part of the period, or a step.
func stepped(rng *rand.Rand, period time.Duration) time.Duration {
	switch rng.IntN(8) {
	case 0:
		return -below(rng, 2*time.Second)
	case 1:
		return -below(rng, 30*time.Minute)
	case 2:
		return below(rng, 30*time.Minute)
	case 3:
		return 0
	default:
		return below(rng, period)
	}
}

// foretold peeks, and then makes the calls that Peek foretold the answers to.
func foretold(b *backend, p *shardlimit.Policy, capacity int64, rng *rand.Rand) {
	b.Helper()
	peek := b.peek(p)
	if peek.Remaining < capacity {
		denied := b.allowed(p, peek.Remaining+1, false)
		if denied.Remaining != peek.Remaining || denied.ResetAfter != peek.ResetAfter {
			b.Fatalf("Peek = %+v, and then one unit more than remain: %+v", peek, denied)
		}
		if peek.Remaining == 0 && (denied.RetryAfter != peek.RetryAfter || denied.Limit != peek.Limit) {
			b.Fatalf("Peek = %+v, and then a unit: %+v", peek, denied)
		}
	}
	if peek.Remaining > 0 && rng.IntN(3) > 0 {
		cost := peek.Remaining - rng.Int64N(peek.Remaining)
		if r := b.allowed(p, cost, true); r.Remaining != peek.Remaining-cost {
			b.Fatalf("Peek = %+v, and then %d units: %+v", peek, cost, r)
		}
	}
}
