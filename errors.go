package shardlimit

import (
	"errors"
	"fmt"
)

// The states in which a Limiter decides nothing.
var (
	// ErrClosed says that the Limiter is closed.
	ErrClosed = errors.New("shardlimit: the limiter is closed")
	// ErrNoPolicy says that the policy is nil, or not made by NewPolicy.
	ErrNoPolicy = errors.New("shardlimit: no policy")
	// ErrNoSubject says that the subject is empty.
	ErrNoSubject = errors.New("shardlimit: the subject is empty")
	// ErrOtherLimiter says that the result to refund is another Limiter's.
	ErrOtherLimiter = errors.New("shardlimit: the result is another limiter's")
)

// ConfigError reports a value that can't be used. Where several are at fault,
// the error joins one for each.
type ConfigError struct {
	Field  string // as in "Limits[1].Rate"
	Value  any
	Reason string // what it must be, or what to use instead
}

func (e *ConfigError) Error() string {
	format := "shardlimit: %s: %v: %s"
	if _, ok := e.Value.(string); ok {
		format = "shardlimit: %s: %q: %s"
	}
	return fmt.Sprintf(format, e.Field, e.Value, e.Reason)
}

// CostError reports a cost that can never pass, however long one waits: below
// 1, or above what a limit can ever hold. Nothing was charged.
type CostError struct {
	Cost  int64
	Limit Limit // the limit that can't hold it; of a cost below 1, the policy's first
	Parts int   // that the limit is split into, of which none holds it; 0: it isn't split
}

func (e *CostError) Error() string {
	if e.Cost < 1 {
		return fmt.Sprintf("shardlimit: cost %d: must be at least 1", e.Cost)
	}
	if e.Parts > 0 {
		return fmt.Sprintf("shardlimit: cost %d: more than one of %d parts of %v can ever hold", e.Cost, e.Parts, e.Limit)
	}
	return fmt.Sprintf("shardlimit: cost %d: more than %v can ever hold", e.Cost, e.Limit)
}

// UnavailableError says why the shard that owns a subject did not answer. It is
// the Failure of a result that the policy's failure mode decided, and the error
// of [Limiter.Refund] and [Limiter.Reset], which have no failure mode.
type UnavailableError struct {
	Shard   string // its address; "" if none was found
	Unknown bool   // the call may have run all the same; it is never sent again
	Err     error  // the cause
}

func (e *UnavailableError) Error() string {
	shard, outcome := "", ""
	if e.Shard != "" {
		shard = " " + e.Shard
	}
	if e.Unknown {
		outcome = ", outcome unknown"
	}
	return fmt.Sprintf("shardlimit: shard%s unavailable%s: %v", shard, outcome, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
