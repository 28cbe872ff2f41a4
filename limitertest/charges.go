package limitertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
)

// long is a period whose windows have no edge near, nor does a unit refill,
// while a check runs by a real clock.
const long = 366 * 24 * time.Hour

func oneKey(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(1000, long)...)
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range 20 {
					r, err := b.limiter.Allow(b.Context(), p, subject)
					if err != nil {
						b.Errorf("Allow: %v", err)
						return
					}
					passed.Add(r.Granted)
				}
			})
		}
		all.Wait()
		if got := passed.Load(); got != 1000 {
			b.Errorf("%d of 1280 passed, want 1000", got)
		}
	})
}

func oddSubjects(b *backend) {
	p := b.policy(shardlimit.Per(2, long))
	for _, subject := range []string{
		"}", "}x", "{a}", "a}b", "{}", "{", "%7B", "%7D", "%", "\x00", "\x00\x00", " ", "\n", ":", "*",
		strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 1<<10), strings.Repeat("x", 100<<10),
		"日本", "\u00e9", "e\u0301", "\xff", "\xfe\xff", "\xc3\x28", "\ufffd",
	} {
		for want := int64(1); want >= 0; want-- {
			r, err := b.limiter.Allow(b.Context(), p, subject)
			if err != nil || !r.Allowed || r.Remaining != want {
				b.Errorf("Allow(%.20q) = %+v, %v; want %d remaining", subject, r, err, want)
			}
		}
	}
}

func costAboveLimit(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		_, err := b.limiter.AllowN(b.Context(), p, subject, 9)
		c, ok := errors.AsType[*shardlimit.CostError](err)
		if !ok || c.Cost != 9 || c.Limit != p.Limits()[0] {
			b.Errorf("AllowN(9) of 5: error %v, want a CostError of 9 and the first limit", err)
		}
		if got := b.passed(p, 6); got != 5 {
			b.Errorf("then %d of 6 passed, want 5", got)
		}
	})
}

func deniedChargesNothing(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		b.allowed(p, 3, true)
		b.allowed(p, 4, false)
		b.allowed(p, 2, true)
		b.allowed(p, 1, false)
	})
}

func wrongCalls(b *backend) {
	p := b.policy(shardlimit.Per(5, long))
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	allow := func(ctx context.Context, p *shardlimit.Policy, subject string) error {
		r, err := b.limiter.Allow(ctx, p, subject)
		if r != (shardlimit.Result{}) {
			b.Errorf("an error came with %+v", r)
		}
		return err
	}
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"no policy", allow(b.Context(), nil, subject), shardlimit.ErrNoPolicy},
		{"zero policy", allow(b.Context(), new(shardlimit.Policy), subject), shardlimit.ErrNoPolicy},
		{"empty subject", allow(b.Context(), p, ""), shardlimit.ErrNoSubject},
		{"context cancelled", allow(ended, p, subject), context.Canceled},
	} {
		if !errors.Is(tt.err, tt.want) {
			b.Errorf("%s: error %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	for _, cost := range []int64{0, -1, -1 << 63} {
		_, err1 := b.limiter.AllowN(b.Context(), p, subject, cost)
		_, err2 := b.limiter.AllowAtMost(b.Context(), p, subject, cost)
		_, err3 := b.limiter.Charge(b.Context(), p, subject, cost)
		for _, err := range []error{err1, err2, err3} {
			if c, ok := errors.AsType[*shardlimit.CostError](err); !ok || c.Cost != cost {
				b.Errorf("cost %d: error %v, want a CostError", cost, err)
			}
		}
	}
	b.remaining(p, 5)
}

// allOrNone: the hourly bucket has lost nothing to what the window refused.
func allOrNone(b *backend) {
	p := b.policy(
		shardlimit.PerHour(4),
		shardlimit.Per(3, 10*time.Second).WithAlgorithm(shardlimit.FixedWindow),
	)
	b.steps(p, []step{
		{0, true, 2, 0},
		{0, true, 1, 0},
		{0, true, 0, 0},
		{0, false, 0, 10 * time.Second},
		{5 * time.Second, false, 0, 5 * time.Second},
		{10 * time.Second, true, 0, 0},
		{10 * time.Second, false, 0, 890 * time.Second}, // of the 900 that a unit takes
	})
}

func bindingLimit(b *backend) {
	day, month := shardlimit.Per(7, long).WithBurst(5), shardlimit.Per(6, long/2)
	p := b.policy(month, day)
	for _, tt := range []struct {
		cost    int64
		allowed bool
		binds   shardlimit.Limit
	}{
		{4, true, day},    // 1 of 5 left, and 2 of 6
		{2, false, day},   // refused by this one alone
		{1, true, day},    // 0 left, and 1
		{5, false, month}, // refused by both: the first
	} {
		if r := b.allowed(p, tt.cost, tt.allowed); r.Limit != tt.binds && r.Source != shardlimit.FromDenial {
			b.Errorf("cost %d: %v binds, want %v", tt.cost, r.Limit, tt.binds)
		}
	}
}
