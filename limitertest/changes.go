package limitertest

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

// raised: what is used stays used, and there is room above it at once. A gcra
// keeps how full it is instead, and full stays full.
func raised(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		b.allowed(p, 5, true)
		b.allowed(p, 1, false)
		p = b.with(p, k.limits(10, long)...)
		if k.name == "gcra" || k.name == "several_gcra" {
			b.allowed(p, 1, false)
			return
		}
		b.allowed(p, 5, true)
		b.allowed(p, 1, false)
	})
}

// lowered: 7 used are more than 5. A gcra at 7 of 10 is at 3.5 of 5.
func lowered(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(10, long)...)
		b.allowed(p, 7, true)
		p = b.with(p, k.limits(5, long)...)
		if k.name == "gcra" {
			b.remaining(p, 1)
			b.allowed(p, 1, true)
		}
		if r := b.allowed(p, 1, false); r.Remaining != 0 {
			b.Errorf("%d remain, want 0", r.Remaining)
		}
	})
}

// reshaped asks all versions of one policy in turn: each has its own state.
func reshaped(b *backend) {
	first := b.policy(shardlimit.Per(3, long))
	var versions []*shardlimit.Policy
	for _, period := range []time.Duration{long, long / 2, 700 * time.Hour} {
		for _, k := range kinds {
			versions = append(versions, b.with(first, k.limits(3, period)...))
		}
	}
	for want := int64(2); want >= 0; want-- {
		for _, p := range versions {
			if r := b.allowed(p, 1, true); r.Remaining != want {
				b.Fatalf("%v: %d remain, want %d", p.Limits(), r.Remaining, want)
			}
		}
	}
	for _, p := range versions {
		b.allowed(p, 1, false)
	}
}

// clockBack fills two windows in a row, so that the step back over their edge
// meets one that is full. Going on again, it is at most the rate times the step
// that passes.
func clockBack(b *backend) {
	const first, second = 99 * time.Second, 104 * time.Second
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, 10*time.Second)...)
		for _, at := range []time.Duration{first, second} {
			b.at(at)
			b.allowAtMost(p, 5)
		}
		b.at(second - 5100*time.Millisecond)
		if got := b.passed(p, 10); got != 0 {
			b.Errorf("%d passed after the step back, want 0", got)
		}
		b.at(second)
		if got := b.passed(p, 10); got > 2 {
			b.Errorf("%d passed in the next 5.1 s, want at most 2", got)
		}
	})
}

// clockForwardAndBack compares with a key that was charged as much without any
// step: at most a second more of denials.
func clockForwardAndBack(b *backend) {
	const now, rate, period = 101 * time.Second, 5, 10 * time.Second
	b.each(func(b *backend, k kind) {
		steady := b.policy(k.limits(rate, period)...)
		b.at(now)
		b.allowed(steady, rate, true)
		want := b.firstPass(steady, now)

		p := b.policy(k.limits(rate, period)...)
		b.at(now)
		b.allowed(p, rate, true)
		b.at(now + time.Hour)
		if got := b.allowAtMost(p, 1<<40).Granted; got > rate {
			b.Errorf("%d passed an hour ahead, want at most the burst of %d", got, rate)
		}
		got := b.firstPass(p, now)
		if got < want || got > want+time.Second {
			b.Errorf("back again, all is denied for %v; without the steps for %v", got, want)
		}
	})
}

// firstPass asks every 10 ms from now on and returns how long all was denied.
func (b *backend) firstPass(p *shardlimit.Policy, now time.Duration) time.Duration {
	b.Helper()
	for waited := time.Duration(0); waited < time.Minute; waited += 10 * time.Millisecond {
		b.at(now + waited)
		if b.allow(p, 1).Allowed {
			return waited
		}
	}
	b.Fatal("denied for a minute")
	return 0
}

// clockBackOverEdge: the earlier window is met with its count.
func clockBackOverEdge(b *backend) {
	fixed := func(period time.Duration) shardlimit.Limit {
		return shardlimit.Per(2, period).WithAlgorithm(shardlimit.FixedWindow)
	}
	for _, tt := range []struct {
		name   string
		edge   time.Duration
		limits []shardlimit.Limit
	}{
		{"a key for each window", 60 * time.Second, []shardlimit.Limit{fixed(10 * time.Second)}},
		{"under a second", 500 * time.Millisecond, []shardlimit.Limit{fixed(500 * time.Millisecond)}},
		{"several limits", 60 * time.Second, []shardlimit.Limit{fixed(10 * time.Second), shardlimit.PerHour(100)}},
	} {
		b.run(tt.name, func(b *backend) {
			p := b.policy(tt.limits...)
			before, after := tt.edge-100*time.Millisecond, tt.edge+100*time.Millisecond
			b.at(before)
			b.allowed(p, 1, true)
			b.at(after)
			b.allowed(p, 2, true)
			b.at(before)
			b.allowed(p, 1, true)
			b.allowed(p, 1, false)
			b.at(after)
			b.allowed(p, 1, false)
		})
	}
}
