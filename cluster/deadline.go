package cluster

import (
	"context"
	"errors"
	"os"
	"time"
)

// deadline returns when a call must have ended that ctx is for.
func (c *Client) deadline(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return time.Now().Add(c.opts.Timeout)
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

// ended returns why a call must end now, if so.
func ended(ctx context.Context, deadline time.Time) error {
	if !time.Now().Before(deadline) {
		return errLate
	}
	return cause(ctx)
}

// cause returns why ctx has ended, if so.
func cause(ctx context.Context) error {
	if ctx.Err() == nil { // the cause itself is looked for among the context's values
		return nil
	}
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errLate
	}
	return err
}
