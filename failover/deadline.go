package failover

import (
	"context"
	"errors"
	"time"
)

// WithTimeout is context.WithTimeout for the time that a shard is given, so
// that [CallerEnded] can tell the shard's deadline from the caller's.
func WithTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(timeout)
	bounded, cancel := context.WithDeadline(ctx, deadline)
	return &shardsTime{bounded, deadline}, cancel
}

// shardsTime is a context that knows the shard's deadline.
type shardsTime struct {
	context.Context
	deadline time.Time
}

type deadlineKey struct{}

// Value returns the deadline under deadlineKey.
func (s *shardsTime) Value(key any) any {
	if key == (deadlineKey{}) {
		return s.deadline
	}
	return s.Context.Value(key)
}

// CallerEnded reports whether a call that failed under ctx did so because its
// caller gave up: cancelled, or had a deadline sooner than that of WithTimeout,
// which is the shard's to meet. A deadline that has passed counts even if ctx
// hasn't noticed: a socket that heeds it may have been quicker.
func CallerEnded(ctx context.Context) bool {
	if errors.Is(ctx.Err(), context.Canceled) {
		return true
	}
	deadline, ok := ctx.Deadline()
	if !ok || time.Now().Before(deadline) {
		return false
	}
	shards, ok := ctx.Value(deadlineKey{}).(time.Time)
	return !ok || deadline.Before(shards)
}
