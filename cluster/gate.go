package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/scripts"
)

// Gate says which shards calls go to, and learns how they fare there, as
// failover.Breakers do. A shard is named by the address of its primary; "" is
// that none could be found for lack of a topology. The methods must be safe for
// concurrent use and must not wait.
type Gate interface {
	// Open reports whether the shard's breaker is open: then nothing is sent.
	Open(shard string) bool
	// Report is told how each call ended, by the shard that it went to last, and
	// how many callers were waiting for that; err is nil if it was answered. It
	// isn't told of calls that met an open
	// breaker, nor of those that got no answer because their caller gave up or
	// this process had no room for them.
	Report(shard string, callers int64, err *failover.Error)
}

// noGate lets everything through.
type noGate struct{}

func (noGate) Open(string) bool                      { return false }
func (noGate) Report(string, int64, *failover.Error) {}

// route returns the primary that the key's calls go to, as far as is known.
func (c *Client) route(ctx context.Context, deadline time.Time, key string) (*shard, *failover.Error) {
	nowhere := way{}
	if c.open(nowhere) {
		return nil, &failover.Error{Class: failover.NeverRan, Err: failover.ErrOpen}
	}
	s, err := c.primary(ctx, deadline, key)
	if err != nil {
		return nil, c.fault(ctx, deadline, nowhere, outcome{err: err})
	}
	return s, nil
}

// open reports whether the gate lets nothing through to w.
func (c *Client) open(w way) bool { return c.opts.Gate.Open(w.addr()) }

// report tells the gate of a call that got no answer.
func (c *Client) report(ctx context.Context, call *scripts.Call, err *failover.Error) {
	if !isOurs(ctx, err) {
		c.opts.Gate.Report(err.Shard, max(call.Callers, 1), err)
	}
}

// isOurs reports whether err is this process's doing and not the shard's: there
// was no room, or the caller gave up. A deadline of ctx is the caller's, and
// counts even if ctx hasn't noticed that it has passed.
func isOurs(ctx context.Context, err *failover.Error) bool {
	switch {
	case errors.Is(err, failover.ErrOpen), errors.Is(err, ErrQueueFull), errors.Is(err, ErrClosed):
		return true
	case !err.Class.Unavailable():
		return false
	case ctx.Err() != nil:
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}
