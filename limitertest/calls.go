package limitertest

import (
	"errors"
	"math"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/shardlimit/shardlimit"
)

func allowAtMost(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		for _, tt := range []struct{ cost, granted, remaining int64 }{
			{3, 3, 2},
			{math.MaxInt64, 2, 0},
			{1, 0, 0},
			{7, 0, 0},
		} {
			r := b.allowAtMost(p, tt.cost)
			if r.Granted != tt.granted || r.Remaining != tt.remaining {
				b.Errorf("AllowAtMost(%d) = %+v, want %d granted and %d remaining", tt.cost, r, tt.granted, tt.remaining)
			}
		}
	})
}

func allowAtMostWait(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, 10*time.Second)...)
		b.allowAtMost(p, 9)
		r := b.allowAtMost(p, 9)
		b.at(r.RetryAfter - time.Microsecond)
		if early := b.allowAtMost(p, 9); early.Granted != 0 {
			b.Errorf("1 µs before RetryAfter %v: %+v", r.RetryAfter, early)
		}
		b.at(r.RetryAfter)
		want := int64(1)
		switch k.name {
		case "sliding_log", "fixed_window", "several_gcra":
			want = 5 // all come back at once
		}
		if late := b.allowAtMost(p, 9); late.Granted != want {
			b.Errorf("RetryAfter %v later: %+v, want %d granted", r.RetryAfter, late, want)
		}
	})
}

// charge charges 8 where 5 per 10 s pass.
func charge(b *backend) {
	for _, tt := range []struct {
		name  string
		retry time.Duration
	}{
		{"token_bucket", 8 * time.Second},                               // debt 3, and one
		{"sliding_window", 15 * time.Second},                            // 8 of the window before weigh 4 at its half
		{"sliding_log", 10 * time.Second},                               // it holds no more than 5
		{"fixed_window", 10 * time.Second},                              // debt ends with the window
		{"several", max(8*time.Second, 15*time.Second, 10*time.Second)}, // the longest of them
	} {
		b.run(tt.name, func(b *backend) {
			p := b.policy(kindOf(tt.name).limits(5, 10*time.Second)...)
			b.at(0)
			if r := b.charge(p, 8); r.Remaining != 0 || r.RetryAfter != tt.retry {
				b.Errorf("Charge(8) of 5 = %+v, want 0 remaining and RetryAfter %v", r, tt.retry)
			}
			b.at(tt.retry - time.Microsecond)
			b.allowed(p, 1, false)
			b.at(tt.retry)
			b.allowed(p, 1, true)
		})
	}
	b.run("within the limit", func(b *backend) {
		p := b.policy(shardlimit.PerSecond(5))
		if r := b.charge(p, 2); r.Remaining != 3 || r.RetryAfter != 0 {
			b.Errorf("Charge(2) of 5 = %+v, want 3 remaining and no wait", r)
		}
	})
}

func kindOf(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}

func chargeGCRA(b *backend) {
	for _, name := range []string{"gcra", "several_gcra"} {
		p := b.policy(kindOf(name).limits(5, long)...)
		r, err := b.limiter.Charge(b.Context(), p, subject, 1)
		if c, ok := errors.AsType[*shardlimit.ConfigError](err); !ok || c.Field != "Limits[0].Algorithm" {
			b.Errorf("%s: Charge = %+v, %v; want a ConfigError about Limits[0].Algorithm", name, r, err)
		}
		b.remaining(p, 5)
	}
}

// chargeBounded: at most ten years of debt a charge; more and more of them still
// give answers.
func chargeBounded(b *backend) {
	const rate, decade = 1000, 1000 * 3653 * 24 * 3600
	for _, a := range algorithms {
		if a == shardlimit.GCRA {
			continue
		}
		b.run(a.String(), func(b *backend) {
			p := b.policy(shardlimit.PerSecond(rate).WithAlgorithm(a))
			_, err := b.limiter.Charge(b.Context(), p, subject, decade+1)
			if c, ok := errors.AsType[*shardlimit.CostError](err); !ok || c.Cost != decade+1 {
				b.Errorf("Charge of more than ten years: error %v, want a CostError", err)
			}
			b.remaining(p, rate)
			for range 40 {
				if r := b.charge(p, decade); r.Remaining != 0 || r.RetryAfter == 0 {
					b.Fatalf("Charge of ten years = %+v, want 0 remaining and a wait", r)
				}
			}
		})
	}
}

func peek(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		for range 10 {
			b.remaining(p, 5)
		}
		if r := b.peek(p); r.ResetAfter != 0 || r.Limit != p.Limits()[0] {
			b.Errorf("Peek of what is unused = %+v", r)
		}
		b.allowed(p, 3, true)
		b.remaining(p, 2)
		b.allowed(p, 2, true)
		denied := b.allowed(p, 1, false)
		near := cmpopts.EquateApprox(0, float64(time.Minute)) // by a real clock
		if diff := cmp.Diff(denied, b.peek(p), cmpopts.IgnoreUnexported(shardlimit.Result{}), near); diff != "" && b.set != nil {
			b.Errorf("Peek differs from Allow (-Allow +Peek):\n%s", diff)
		}
		b.refund(b.peek(p))
		b.remaining(p, 0)
	})
}

func reset(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, long)...)
		b.reset(p) // nothing is there
		b.allowed(p, 5, true)
		b.reset(p)
		b.remaining(p, 5)
		b.allowed(p, 5, true)
		b.allowed(p, 1, false)
	})
}

// resetFences: a receipt from before the reset doesn't free what was charged
// after it.
func resetFences(b *backend) {
	b.each(func(b *backend, k kind) {
		p := b.policy(k.limits(5, 10*time.Second)...)
		b.at(time.Second)
		before := b.allowed(p, 4, true)
		b.at(time.Second + time.Microsecond)
		b.reset(p)
		b.at(time.Second + 2*time.Microsecond)
		after := b.allowed(p, 5, true)
		b.refund(before)
		b.remaining(p, 0)
		b.refund(after)
		b.remaining(p, 5)
	}, "gcra") // alone, it keeps no mark of a reset
}
