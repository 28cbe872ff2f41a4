package shardlimit

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/failover"
)

// Observer is what a Limiter tells of its work: for metrics, traces, alarms.
// Any of its functions may be nil, and then costs nothing.
//
// Decided, Sending and Reloading are called by those at work, so by many at
// once. The others tell of changes, once for each: one at a time, in order, from
// a goroutine of the Limiter's own. None of them may call Close, and what takes
// long in one of them delays the next, and the probes that find out whether a
// shard is back.
type Observer struct {
	// Decided is called after each decision, and after each call that came to
	// none, except for bad input. ctx is the caller's. Peek decides nothing.
	Decided func(ctx context.Context, d Decision)
	// Sending is called before calls go out to a shard: how many in one
	// pipeline, or 1 where a caller sends its call by itself.
	Sending func(shard string, calls int)
	// Reloading is called for each occasion to ask anew who serves what, which
	// the Redis client does at most every 200 ms.
	Reloading func()
	// BreakerChanged is called when a shard's breaker opens and when it closes.
	BreakerChanged func(BreakerChange)
	// FallbackChanged is called when the failure modes begin to answer for a
	// shard, and when Redis has answered all of its calls for Breaker.Window.
	FallbackChanged func(FallbackChange)
	// TopologyChanged is called with the addresses of the primaries, sorted,
	// once others serve the slots than was known.
	TopologyChanged func(shards []string)
	// Misconfigured is called for the first error of each kind at each shard
	// that somebody must do something about: a permission, a wrong type.
	Misconfigured func(shard string, err error)
}

// Decision is one decision, as an Observer sees it.
type Decision struct {
	Policy string // its name
	Cost   int64  // units asked for
	Result Result // if Err is nil
	Err    error  // why there is no decision
	Took   time.Duration
}

// BreakerChange tells that calls to a shard go out no more, or again.
type BreakerChange struct {
	Shard string        // the primary's address; "" where no topology could be had
	Open  bool          // calls don't go out, and the failure modes answer at once
	Err   error         // why it opened
	After time.Duration // if it closed: how long it was open
	Gone  bool          // it closed because the shard serves no slots any more
}

// FallbackChange tells that calls to a shard began to get no answer, or that
// all of them get one again.
type FallbackChange struct {
	Shard string // as in BreakerChange
	InUse bool
	Err   error // the first one's, if InUse
	Gone  bool  // it ended because the shard serves no slots any more

	// If it isn't in use any more: what there was of it.
	After      time.Duration
	Unanswered Unanswered
}

// Unanswered counts the calls that a shard didn't answer, by why.
type Unanswered struct {
	NeverRan int64 `json:"never_ran"` // refused by the shard, or it was not reached in time
	Unknown  int64 `json:"unknown"`   // may have run all the same: charged once, or not at all
	Open     int64 `json:"open"`      // not sent, as the breaker was open
}

// observe hands a change on to the Logger and the Observer.
func (c *Config) observe(e failover.Event) {
	c.log(e)
	o := &c.Observer
	switch e.Kind {
	case failover.Opened, failover.Closed:
		if o.BreakerChanged != nil {
			o.BreakerChanged(BreakerChange{
				Shard: e.Shard, Open: e.Kind == failover.Opened, Err: cause(e.Err), After: e.Lasted, Gone: e.Gone,
			})
		}
	case failover.FallbackBegan, failover.FallbackEnded:
		if o.FallbackChanged != nil {
			o.FallbackChanged(FallbackChange{
				Shard: e.Shard, InUse: e.Kind == failover.FallbackBegan, Err: cause(e.Err), Gone: e.Gone,
				After: e.Lasted, Unanswered: Unanswered(e.Calls),
			})
		}
	case failover.TopologyChanged:
		if o.TopologyChanged != nil {
			o.TopologyChanged(e.Shards)
		}
	case failover.Misconfigured:
		if o.Misconfigured != nil {
			o.Misconfigured(e.Shard, misconfigured(e.Err))
		}
	}
}

// cause returns err as the Failure of a result has it.
func cause(err *failover.Error) error {
	if err == nil {
		return nil
	}
	return unavailable(err)
}

// decided counts a call and tells of it.
func (l *Limiter) decided(ctx context.Context, d Decision) {
	l.counters.count(&d)
	l.logShadow(&d)
	if l.config.Observer.Decided != nil {
		l.config.Observer.Decided(ctx, d)
	}
}
