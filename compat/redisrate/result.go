package redisrate

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

// Result says what may happen.
type Result struct {
	// Limit is the limit that was asked about.
	Limit Limit
	// Allowed is how many events may happen now.
	Allowed int
	// Remaining is how many more events could happen now; 0 if some were denied.
	Remaining int
	// RetryAfter is the wait until what was denied would be allowed; -1 if
	// nothing was. After AllowAtMost it is the wait for one event, where none is
	// left.
	RetryAfter time.Duration
	// ResetAfter is the wait until nothing is used any more.
	ResetAfter time.Duration
}

// result returns what r says.
func (l Limit) result(r *shardlimit.Result) *Result {
	if !r.Allowed {
		return &Result{Limit: l, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter}
	}
	return &Result{
		Limit: l, Allowed: int(r.Granted), Remaining: min(int(r.Remaining), l.Burst),
		RetryAfter: -1, ResetAfter: r.ResetAfter,
	}
}
