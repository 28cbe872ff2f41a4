package limitertest

import (
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit"
)

// slidingLogTimes: an entry counts until it is exactly a period old.
func slidingLogTimes(b *backend) {
	const ms = time.Millisecond
	p := b.policy(shardlimit.PerMinute(3).WithAlgorithm(shardlimit.SlidingLog))
	b.steps(p, []step{
		{0, true, 2, 0},
		{100 * ms, true, 1, 0},
		{200 * ms, true, 0, 0},
		{300 * ms, false, 0, 59_700 * ms},
		{59_999 * ms, false, 0, 1 * ms},
		{60_001 * ms, true, 0, 0}, // the one at 0 has left
		{60_150 * ms, true, 0, 0}, // the one at 100 has
		{60_150 * ms, false, 0, 50 * ms},
	})
}

func tokenBucketTimes(b *backend) {
	const wait = 500 * time.Millisecond // for a unit at 2 per second
	p := b.policy(shardlimit.PerSecond(2).WithBurst(5))
	b.steps(p, []step{
		{0, true, 4, 0},
		{0, true, 3, 0},
		{0, true, 2, 0},
		{0, true, 1, 0},
		{0, true, 0, 0},
		{0, false, 0, wait},
		{0, false, 0, wait},
		{time.Second, true, 1, 0}, // two came, one went
	})
}

func fixedWindowTimes(b *backend) {
	p := b.policy(shardlimit.Per(2, 10*time.Second).WithAlgorithm(shardlimit.FixedWindow))
	b.steps(p, []step{
		{8 * time.Second, true, 1, 0},
		{8 * time.Second, true, 0, 0},
		{8 * time.Second, false, 0, 2 * time.Second},
		{10 * time.Second, true, 1, 0},
		{10 * time.Second, true, 0, 0},
	})
}

// slidingWindowTimes: half-way, half of the 10 before still count; the sixth
// must wait until 4 of them do.
func slidingWindowTimes(b *backend) {
	p := b.policy(shardlimit.Per(10, 10*time.Second).WithAlgorithm(shardlimit.SlidingWindow))
	b.at(3 * time.Second)
	b.allowed(p, 10, true)
	b.steps(p, []step{
		{15 * time.Second, true, 4, 0},
		{15 * time.Second, true, 3, 0},
		{15 * time.Second, true, 2, 0},
		{15 * time.Second, true, 1, 0},
		{15 * time.Second, true, 0, 0},
		{15 * time.Second, false, 0, time.Second},
	})
}

// resetAfter asks at second 3 of a window of 10 s.
func resetAfter(b *backend) {
	want := map[string]time.Duration{
		"token_bucket":   4 * time.Second, // 2 units at 5 per 10 s
		"gcra":           4 * time.Second,
		"sliding_window": 17 * time.Second, // the end of the next window
		"sliding_log":    10 * time.Second,
		"fixed_window":   7 * time.Second,
		"several":        17 * time.Second, // the longest of them
		"several_gcra":   7 * time.Second,
	}
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, 10*time.Second)...)
		b.at(3 * time.Second)
		if r := b.peek(p); r.ResetAfter != 0 {
			b.Errorf("nothing is used: ResetAfter = %v, want 0", r.ResetAfter)
		}
		if r := b.allowed(p, 2, true); r.ResetAfter != want[k.name] {
			b.Errorf("2 of 5 used: ResetAfter = %v, want %v", r.ResetAfter, want[k.name])
		}
		b.at(3*time.Second + want[k.name])
		if r := b.peek(p); r.ResetAfter != 0 || r.Remaining != 5 {
			b.Errorf("ResetAfter later: %+v, want 5 remaining and nothing to wait for", r)
		}
	})
}

func sameInstant(b *backend) {
	for _, period := range []time.Duration{500 * time.Millisecond, time.Millisecond} {
		b.run(period.String(), func(b *backend) {
			b.each(func(b *backend, k kind) {
				p := b.policy(k.limits(3, period)...)
				b.at(123_456 * time.Microsecond)
				if got := b.passed(p, 30); got != 3 {
					b.Errorf("%d of 30 passed, want 3", got)
				}
			})
		})
	}
}

// passed asks n times for one unit and returns how many passed.
func (b *backend) passed(p *shardlimit.Policy, n int) int {
	b.Helper()
	passed := 0
	for range n {
		if b.allow(p, 1).Allowed {
			passed++
		}
	}
	return passed
}

func sameMicrosecond(b *backend) {
	p := b.policy(shardlimit.PerMinute(100).WithAlgorithm(shardlimit.SlidingLog))
	if got := b.passed(p, 20); got != 20 {
		b.Errorf("%d of 20 passed", got)
	}
	b.remaining(p, 80)
}

func noFractionLost(b *backend) {
	for _, a := range []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.GCRA} {
		b.run(a.String(), func(b *backend) {
			const burst = 5
			p := b.policy(shardlimit.PerSecond(1).WithBurst(burst).WithAlgorithm(a))
			passed := 0
			for at := time.Duration(0); at <= 30*time.Second; at += 10 * time.Millisecond {
				b.at(at)
				passed += b.passed(p, 1)
			}
			if passed != 30+burst {
				b.Errorf("%d passed in 30 s, want %d", passed, 30+burst)
			}
		})
	}
}

// longRun asks for all there is, again and again, before the burst is whole. No
// rounding ever passes more than the rate.
func longRun(b *backend) {
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const year = 366 * 24 * time.Hour
	for _, limit := range []shardlimit.Limit{
		shardlimit.PerSecond(3_000_000),
		shardlimit.PerSecond(1_000_000_000),
		shardlimit.Per(7, time.Millisecond),
		shardlimit.Per(1, year).WithBurst(2),
		shardlimit.PerSecond(16_000).WithAlgorithm(shardlimit.GCRA), // 62.5 µs apart
		shardlimit.PerSecond(15_999).WithAlgorithm(shardlimit.GCRA), // a little more, rounded up
		shardlimit.Per(999, 62_500*time.Microsecond).WithAlgorithm(shardlimit.GCRA),
	} {
		b.run(limit.String(), func(b *backend) {
			p := b.policy(limit)
			var granted int64
			var at time.Duration
			ask := func(d time.Duration) {
				at = d
				b.at(d)
				granted += b.allowAtMost(p, 1<<40).Granted
			}
			ask(0)
			for range 300 {
				ask(at + below(rng, limit.Period/5))
			}
			ask(at.Truncate(limit.Period) + limit.Period)

			granted -= max(limit.Burst, limit.Rate)
			steady := limit.Rate * int64(at/limit.Period)
			if granted > steady || granted < steady-steady/1000-1 {
				b.Errorf("%d units beside the burst in %v, want %d or up to 0.1 %% less", granted, at, steady)
			}
		})
	}
}

// exactWait: after exactly RetryAfter the same cost passes, and not a
// microsecond before.
func exactWait(b *backend) {
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	b.each(func(b *backend, k kind) {
		for _, limit := range []shardlimit.Limit{
			shardlimit.PerMinute(3),
			shardlimit.Per(7, 997*time.Millisecond),
			shardlimit.Per(1000, 1_000_003*time.Microsecond),
			shardlimit.Per(13, time.Millisecond),
		} {
			b.run(limit.String(), func(b *backend) {
				waitExactly(b, b.policy(k.limits(limit.Rate, limit.Period)...), limit, rng)
			})
		}
	})
}

func waitExactly(b *backend, p *shardlimit.Policy, limit shardlimit.Limit, rng *rand.Rand) {
	const tick = time.Microsecond
	at := below(rng, limit.Period)
	for range 60 {
		at += below(rng, limit.Period/2)
		b.at(at)
		cost := 1 + rng.Int64N(limit.Rate)
		r := b.allow(p, cost)
		if r.Allowed {
			continue
		}
		b.at(at + r.RetryAfter - tick)
		if early := b.allow(p, cost); early.Allowed || early.RetryAfter != tick {
			b.Fatalf("%v after start, cost %d: denied for %v, but 1 µs before that %+v", at, cost, r.RetryAfter, early)
		}
		at += r.RetryAfter
		b.at(at)
		if late := b.allow(p, cost); !late.Allowed {
			b.Fatalf("cost %d: denied for %v, and then still %+v", cost, r.RetryAfter, late)
		}
	}
}

// below returns a random time below d, in whole µs.
func below(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(d.Microseconds())) * time.Microsecond
}
