package shardlimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// DeadlineError says that a context ends before its request would pass, so that
// Wait did not begin to wait. It is a [context.DeadlineExceeded]. Nothing was
// charged.
type DeadlineError struct {
	Limit      Limit         // the limit that binds
	RetryAfter time.Duration // when the request would pass, if nobody else asks meanwhile; at the soonest, where a lease is empty
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("shardlimit: %v would pass in %v, after the context's deadline", e.Limit, e.RetryAfter)
}

// Unwrap returns context.DeadlineExceeded.
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// Wait is WaitN with a cost of 1.
func (l *Limiter) Wait(ctx context.Context, p *Policy, subject string) error {
	return l.WaitN(ctx, p, subject, 1)
}

// WaitN asks as AllowN does until the request is allowed, or ctx ends, or the
// Limiter is closed. In between it waits for the RetryAfter, and a little
// longer, by chance, so that those who were denied together don't ask again
// together. Nobody holds a place meanwhile: who asks first after that is first.
//
// Where a failure mode denies, WaitN asks again after the Timeout, then after
// twice that and so on up to 1 s, as the shard may be back at any time.
//
// The error is a *CostError, at once, if the cost can never pass; a
// *DeadlineError if the deadline of ctx lies before the RetryAfter: at once, or,
// where a lease is empty, as soon as Redis has said how long that is;
// that of ctx if it ended; and else as AllowN's. Nothing was charged then, except
// as AllowN says.
func (l *Limiter) WaitN(ctx context.Context, p *Policy, subject string, cost int64) error {
	for failures := 0; ; {
		r, err := l.AllowN(ctx, p, subject, cost)
		if err != nil || r.Allowed {
			return err
		}
		var pause time.Duration
		if r.Failure != nil {
			pause = l.outage(p, r, failures)
			failures++
		} else {
			pause, failures = r.RetryAfter, 0
			if endsWithin(ctx, pause) {
				return &DeadlineError{Limit: r.Limit, RetryAfter: pause}
			}
		}
		if err := l.sleep(ctx, pause+jitter(ctx, pause)); err != nil {
			return err
		}
	}
}

// longestPause is the longest, without its jitter, that is waited for a shard
// that does not answer.
const longestPause = time.Second

// outage returns how long to wait after so many failures in a row before r,
// which a failure mode denied.
func (l *Limiter) outage(p *Policy, r Result, failures int) time.Duration {
	pause := l.timeout(p)
	longest := max(pause, longestPause)
	for ; failures > 0 && pause < longest; failures-- {
		pause = min(2*pause, longest)
	}
	if p.share != nil {
		pause = min(pause, r.RetryAfter) // the share may have room before Redis is back
	}
	return pause
}

// jitter returns what to wait beyond d: up to an eighth of it and 1 s, and not
// past the deadline of ctx if d isn't.
func jitter(ctx context.Context, d time.Duration) time.Duration {
	most := min(d/8, time.Second)
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, max(time.Until(deadline)-d-time.Millisecond, 0))
	}
	return rand.N(most + 1)
}

// endsWithin reports whether the deadline of ctx is before d has passed.
func endsWithin(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < d
}

// sleep waits for d. It returns why it ended before, if so.
func (l *Limiter) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
