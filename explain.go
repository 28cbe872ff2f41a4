package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/failover"
)

// explain returns what the backend's error means to the caller, whose context
// ctx is.
func (l *Limiter) explain(ctx context.Context, err error) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if ended := ended(ctx); ended != nil {
		return ended
	}
	if f, ok := errors.AsType[*failover.Error](err); ok && f.Class.Unavailable() {
		return unavailable(f)
	}
	return misconfigured(err)
}

func unavailable(f *failover.Error) *UnavailableError {
	return &UnavailableError{Shard: f.Shard, Unknown: f.Class == failover.Unknown, Err: f.Err}
}

func misconfigured(err error) error { return fmt.Errorf("shardlimit: %w", err) }

// isMisconfigured reports whether err, as explain returned it, is of the set-up.
func isMisconfigured(err error) bool {
	f, ok := errors.AsType[*failover.Error](err)
	return ok && f.Class == failover.Configuration
}

// ended returns why ctx has ended, if so. A deadline that is reached counts
// even if ctx has not noticed: those who read it may have been quicker.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}
