package cluster

import (
	"context"
	"errors"
	"fmt"
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

// errLate says that the deadline came before the answer.
var errLate error = lateError{}

// lateError says that something did not come in time. It is both
// [context.DeadlineExceeded] and [os.ErrDeadlineExceeded]: which of the two the
// client meets depends on who notices first, the context or the socket.
type lateError struct{ noticed error } // by the client; nil: not there

func (e lateError) Error() string {
	if e.noticed == nil {
		return "no answer within the deadline"
	}
	return fmt.Sprintf("no answer in time: %v", e.noticed)
}

// Unwrap returns what the client noticed.
func (e lateError) Unwrap() error { return e.noticed }

// Timeout reports true, as for any net.Error that is one.
func (lateError) Timeout() bool { return true }

// Is reports whether target says the same.
func (lateError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
}

// asLate returns err, as a lateError if it is what the client says of one.
func asLate(err error) error {
	_, already := errors.AsType[lateError](err)
	if already || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return lateError{noticed: err}
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
