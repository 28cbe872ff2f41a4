package shardlimit

import (
	"fmt"
	"math"
	"time"

	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/scripts"
)

// Result is a decision. The zero Result is none: it allows nothing, and there
// is nothing in it to refund.
type Result struct {
	Allowed bool
	// Granted is the units taken: the cost, 0 if denied, or the part that fitted
	// with AllowAtMost.
	Granted int64
	// Limit is the one that binds: the first to refuse, else the one with the
	// least left. FromDenial it is as it was when Redis refused.
	Limit Limit
	// Remaining is the units that could still pass now. FromFallback it is of
	// this process's share, or 0 where there is none. FromLease it is what the
	// lease has left and what Redis had left when it was lent, an estimate one
	// lease time old at most.
	Remaining int64
	// RetryAfter is the wait until the same cost would pass, if nobody else asks
	// meanwhile; 0 if allowed, unless Shadowed. After AllowAtMost and Charge it
	// is the wait for one unit. FromDenial it is by what Redis had used 250 ms
	// before at most, and what has passed in this process since: other instances
	// may have taken more. Where a lease is empty, it is when the next is asked
	// for, after 250 ms at most.
	RetryAfter time.Duration
	// ResetAfter is the wait until nothing is used any more. FromFallback it is
	// as Remaining.
	ResetAfter time.Duration
	Source     Source
	// Shadowed says that the request would not have passed, or not all of it,
	// and was allowed because the policy is a Shadow. Granted is what was asked
	// for then; less was charged, or nothing.
	Shadowed bool
	// Failure is why the failure mode decided, an *UnavailableError; nil if it
	// did not. Of a Shadow policy it may also be an error of the set-up.
	Failure error

	receipt *receipt     // of what was charged; nil: nothing was
	spend   hotkey.Spend // of a lease; its zero value: nothing
}

// Source is what made a decision. The zero Source made none.
type Source uint8

// The sources.
const (
	FromRedis    Source = iota + 1
	FromMemory          // of a Limiter made by NewLocal
	FromFallback        // the policy's failure mode
	FromLease           // units that were charged in Redis before
	FromDenial          // what Redis refused a moment ago, or an empty lease
)

// String returns the source in a word.
func (s Source) String() string {
	switch s {
	case FromRedis:
		return "redis"
	case FromMemory:
		return "memory"
	case FromFallback:
		return "fallback"
	case FromLease:
		return "lease"
	case FromDenial:
		return "denial"
	default:
		return fmt.Sprintf("Source(%d)", uint8(s))
	}
}

// result returns what reply says about call.
func (p *Policy) result(call *scripts.Call, reply *scripts.Reply) Result {
	granted, next := reply.Granted*call.Cost, call.Cost
	switch {
	case call.Op == scripts.Charge:
		next = 1
	case granted > 0:
		next = 0
	}
	r := p.state(call.Plan, reply, next)
	r.Granted = granted
	r.Allowed = granted > 0 || call.Op == scripts.Peek && r.RetryAfter == 0
	return r
}

// state returns what reply says about the limits, or the share of them that plan
// has, where cost units are asked for next; of none, there is no RetryAfter.
func (p *Policy) state(plan *scripts.Plan, reply *scripts.Reply, cost int64) Result {
	r := Result{Remaining: math.MaxInt64}
	for i, l := range plan.Limits() {
		state := reply.State(i)
		left, reset := l.Remaining(state, reply.Now), l.ResetAfter(state, reply.Now)
		var retry int64
		if cost > 0 {
			retry = l.RetryAfter(state, reply.Now, cost)
		}
		if r.RetryAfter == 0 && left < r.Remaining { // who refuses has less left than who doesn't
			r.Limit = p.config.Limits[i]
		}
		r.Remaining = min(r.Remaining, left)
		r.RetryAfter = max(r.RetryAfter, micros(retry))
		r.ResetAfter = max(r.ResetAfter, micros(reset))
	}
	return r
}

// micros returns n µs, or the longest Duration.
func micros(n int64) time.Duration {
	if n > int64(math.MaxInt64/time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Microsecond
}
