package cluster

import (
	"context"
	"errors"
	"os"
	"time"
)

// until is a context that has a deadline without a timer to keep it: who waits
// has one. Sockets read the deadline alone.
type until struct {
	context.Context
	deadline time.Time
}

// Deadline returns the deadline.
func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

// bound returns a context that has a deadline.
func (c *Client) bound(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); ok {
		return ctx
	}
	return until{ctx, time.Now().Add(c.opts.Timeout)}
}

// errLate says that the deadline came before the answer. It is both
// [context.DeadlineExceeded] and [os.ErrDeadlineExceeded]: which of the two one
// would meet depends on who noticed first, the context or the socket.
var errLate error = lateError{}

type lateError struct{}

func (lateError) Error() string { return "no answer within the deadline" }

// Timeout reports true, as for any net.Error that is one.
func (lateError) Timeout() bool { return true }

// Is reports whether target says the same.
func (lateError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
}

// ended returns why ctx, or its deadline, has ended, if so.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return errLate
	}
	return cause(ctx)
}

// cause returns why ctx has ended, if so.
func cause(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errLate
	}
	return err
}
