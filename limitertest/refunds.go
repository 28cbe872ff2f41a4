package limitertest

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

func refund(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		b.allowed(p, 1, true)
		r := b.allowed(p, 4, true)
		b.allowed(p, 1, false)
		b.refund(r)
		b.remaining(p, 4)
		b.allowed(p, 4, true)
	})
}

func refundOnce(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		r := b.allowed(p, 5, true)
		b.refund(r)
		b.allowed(p, 5, true)
		b.refund(r)
		b.allowed(p, 1, false)
	})
}

func refundNothing(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		b.allowed(p, 5, true)
		b.refund(b.allowed(p, 1, false))
		b.refund(b.peek(p))
		b.refund(shardlimit.Result{})
		b.allowed(p, 1, false)
	})
}

func refundPart(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		b.allowed(p, 2, true)
		b.refund(b.allowAtMost(p, 9))
		b.remaining(p, 3)
	})
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		b.refund(b.charge(p, 8))
		b.remaining(p, 5)
	}, "gcra", "several_gcra")
}

// refundDecayed: of 10 units, 4 have come back by themselves after 4 s.
func refundDecayed(b *backend) {
	bucket := shardlimit.PerSecond(1).WithBurst(10)
	gcra := bucket.WithAlgorithm(shardlimit.GCRA)
	hour := shardlimit.PerHour(1000).WithAlgorithm(shardlimit.FixedWindow)
	for _, tt := range []struct {
		name   string
		limits []shardlimit.Limit
	}{
		{"token_bucket", []shardlimit.Limit{bucket}},
		{"gcra", []shardlimit.Limit{gcra}},
		{"several", []shardlimit.Limit{hour, bucket, gcra}},
	} {
		b.run(tt.name, func(b *backend) {
			p := b.policy(tt.limits...)
			b.at(0)
			r := b.allowed(p, 10, true)
			b.at(2 * time.Second)
			b.allowed(p, 2, true)
			b.at(4 * time.Second)
			b.remaining(p, 2)
			b.refund(r)
			b.remaining(p, 8)
		})
		b.run(tt.name+" wholly", func(b *backend) {
			p := b.policy(tt.limits...)
			b.at(0)
			r := b.allowed(p, 5, true)
			b.at(5 * time.Second)
			b.allowed(p, 10, true)
			b.refund(r)
			b.remaining(p, 0)
		})
	}
}

func refundWindow(b *backend) {
	hour := shardlimit.PerHour(1000)
	for _, tt := range []struct {
		algorithm shardlimit.Algorithm
		next      int64 // remaining in the middle of the next window, after the refund
	}{
		{shardlimit.FixedWindow, 5 - 1},
		{shardlimit.SlidingWindow, 5 - 1}, // and the window before weighs nothing
	} {
		limit := shardlimit.Per(5, 10*time.Second).WithAlgorithm(tt.algorithm)
		for name, limits := range map[string][]shardlimit.Limit{"alone": {limit}, "several": {limit, hour}} {
			b.run(tt.algorithm.String()+" "+name, func(b *backend) {
				p := b.policy(limits...)
				b.at(time.Second)
				r := b.allowed(p, 4, true)
				b.at(15 * time.Second)
				b.allowed(p, 1, true)
				b.refund(r)
				b.remaining(p, tt.next)

				p = b.policy(limits...)
				b.at(time.Second)
				r = b.allowed(p, 4, true)
				b.at(25 * time.Second)
				b.allowed(p, 5, true)
				b.refund(r)
				b.remaining(p, 0)
			})
		}
	}
}

// refundBehindEdge refunds what was charged to a window that the clock had
// stepped back into.
func refundBehindEdge(b *backend) {
	fixed := shardlimit.Per(5, 10*time.Second).WithAlgorithm(shardlimit.FixedWindow)
	short := shardlimit.Per(5, 500*time.Millisecond).WithAlgorithm(shardlimit.FixedWindow)
	for _, tt := range []struct {
		name   string
		period time.Duration
		limits []shardlimit.Limit
	}{
		{"a key for each window", fixed.Period, []shardlimit.Limit{fixed}},
		{"under a second", short.Period, []shardlimit.Limit{short}},
		{"several limits", fixed.Period, []shardlimit.Limit{shardlimit.PerHour(100), fixed}},
	} {
		b.run(tt.name, func(b *backend) {
			p := b.policy(tt.limits...)
			before, after := tt.period-100*time.Millisecond, tt.period+100*time.Millisecond
			b.at(after)
			b.allowed(p, 3, true)
			b.at(before)
			r := b.allowed(p, 4, true)
			b.refund(r)
			b.remaining(p, 5)
			b.at(after)
			b.remaining(p, 2)
		})
	}
}

func refundLog(b *backend) {
	p := b.policy(shardlimit.Per(5, 10*time.Second).WithAlgorithm(shardlimit.SlidingLog))
	b.at(time.Second)
	first := b.allowed(p, 2, true)
	b.at(2 * time.Second)
	b.allowed(p, 2, true)
	b.refund(first)
	if r := b.peek(p); r.Remaining != 3 || r.ResetAfter != 10*time.Second {
		b.Errorf("Peek = %+v, want 3 remaining and the second charge's 10 s", r)
	}
	b.at(12 * time.Second)
	b.remaining(p, 5)
}
