package cluster

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit/failover"
)

// Gate decides whether calls go to a shard, which it knows by its address, and
// is told what becomes of them. Its methods must be safe for concurrent use and
// must not wait.
type Gate interface {
	// Open reports whether the shard's breaker is open: then nothing is sent.
	Open(shard string) bool
	// Report tells of a command that was sent, or was to be: nil where the
	// shard answered, be it that another serves the slot. What a caller
	// cancelled is not told of, nor what this process had no room for.
	Report(shard string, err *failover.Error)
}

// ErrOpen says that the shard's breaker is open.
var ErrOpen = errors.New("the shard's breaker is open")

// open reports whether the gate lets nothing through to w.
func (c *Client) open(w way) bool {
	return c.opts.Gate != nil && c.opts.Gate.Open(w.addr())
}

// report tells the gate what became of a command that went to w.
func (c *Client) report(ctx context.Context, w way, err *failover.Error) {
	if c.opts.Gate == nil || err != nil && isOurs(ctx, err) {
		return
	}
	c.opts.Gate.Report(w.addr(), err)
}

// isOurs reports whether err is this process's doing and not the shard's.
func isOurs(ctx context.Context, err *failover.Error) bool {
	switch {
	case errors.Is(err, ErrOpen), errors.Is(err, ErrQueueFull), errors.Is(err, ErrClosed):
		return true
	default:
		return errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Cause(ctx))
	}
}
