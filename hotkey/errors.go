package hotkey

import "errors"

var (
	// ErrClosed is of a caller who waited when the Flights were closed.
	ErrClosed = errors.New("closed")
	// ErrNeverRan is what the error of an Asker wraps if the ask changed nothing
	// in Redis, and will not: what was to be settled with it may be sent again.
	ErrNeverRan = errors.New("the ask never ran")
)

// WaitError is of a caller who left while it waited for others' call.
type WaitError struct {
	// Sent reports whether the call was sent that the caller was part of. What
	// is granted for it serves another, or is given back.
	Sent bool
	Err  error // the context's, context.DeadlineExceeded, or why that call was late
}

// Error returns what ended, and when.
func (e *WaitError) Error() string {
	if e.Sent {
		return "waiting for the call in flight: " + e.Err.Error()
	}
	return "waiting to be sent: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }
