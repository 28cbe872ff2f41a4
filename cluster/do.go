package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// Do takes the call to the primary that serves its key and returns the reply.
// It doesn't change call. Of a windowed plan it chooses the window, as
// scripts.Call.InWindow says, and the reply's state names it; the key needs a
// hash tag then, so that one shard serves all of its windows. An ask for a lease
// gets its end by the shard's clock here.
//
// Until ctx ends, or for Options.Timeout where ctx has no deadline, it goes
// again whenever the call was refused and waiting can help, unless it may go
// Elsewhere. A call that may have run is never sent again.
//
// It returns by then whatever the options of the Redis client are, but for one
// case: who sends a call alone notices a cancellation up to 100 ms late.
//
// Every error is a *failover.Error that says what became of the call, whoever
// ended it: that ctx did is for the caller to see in ctx. So its class is
// never failover.Caller.
func (c *Client) Do(ctx context.Context, call *scripts.Call) (scripts.Reply, error) {
	return c.DoUntil(ctx, c.deadline(ctx), call)
}

// DoUntil is Do with a deadline beside that of ctx: the earlier one holds. It
// spares a context for it.
func (c *Client) DoUntil(ctx context.Context, deadline time.Time, call *scripts.Call) (scripts.Reply, error) {
	own, callers := ctx.Deadline()
	if callers = callers && !own.After(deadline); callers {
		deadline = own
	}
	var refused *failover.Error // the last time
	for wait := firstWait; ; wait = wait.next() {
		reply, err := c.try(ctx, deadline, call)
		if err == nil {
			return reply, nil
		}
		if refused != nil && err.Class == failover.NeverRan && ended(ctx, deadline) != nil {
			err = refused // says more than that ctx ended before it was refused again
		}
		helps := !call.Elsewhere && waitingHelps(err)
		if helps && wait.sleep(ctx, deadline) {
			refused = err
			continue
		}
		if !helps || !callers { // else there was no time left, and it was the caller's
			c.report(ctx, call, err)
		}
		return scripts.Reply{}, err
	}
}

// try makes the call once: whatever is refused, it does not wait for.
func (c *Client) try(ctx context.Context, deadline time.Time, call *scripts.Call) (scripts.Reply, *failover.Error) {
	over := ended(ctx, deadline)
	if c.closed.Load() {
		over = ErrClosed
	}
	if over != nil {
		return scripts.Reply{}, &failover.Error{Class: failover.NeverRan, Err: over}
	}
	s, fault := c.route(ctx, deadline, call.Key)
	if fault != nil {
		return scripts.Reply{}, fault
	}
	if call.Plan.Windowed() || call.Op == scripts.Lease {
		return c.runByClock(ctx, deadline, s, call)
	}
	reply, _, err := c.run(ctx, deadline, s, call, call.Key)
	return reply, err
}

// ErrWindow says that the shard's clock lay in another window than the call's
// each time: it jumps, or the way to it takes longer than a window.
var ErrWindow = errors.New("the shard's clock is in another window each time")

// windowTries is how many windows a call is sent for.
const windowTries = 3

// runByClock runs the call in the window that the shard's clock lies in, and
// lets an ask for a lease end by that clock.
func (c *Client) runByClock(ctx context.Context, deadline time.Time, s *shard, call *scripts.Call) (scripts.Reply, *failover.Error) {
	now, fixed := call.Clock.Micros()
	if !fixed {
		now = s.clock.now()
	}
	own := *call
	var last way
	for range windowTries {
		key := call.Key
		if call.Plan.Windowed() {
			own.Window = call.InWindow(now)
			key = keys.InWindow(key, own.Window)
		}
		if within := call.Lease.Within.Microseconds(); within > 0 {
			own.Lease.NotAfter = now + within
		}
		sent := c.origin.now()
		reply, w, err := c.run(ctx, deadline, s, &own, key)
		if err != nil {
			return scripts.Reply{}, err
		}
		if !fixed && w.shard.node != nil {
			w.shard.clock.learn(reply.Now, sent, c.origin.now())
		}
		if reply.Granted != scripts.OtherWindow {
			return reply, nil
		}
		now, last = reply.Now, w
	}
	return scripts.Reply{}, &failover.Error{Class: failover.NeverRan, Shard: last.addr(), Err: ErrWindow}
}

// run runs the call's script on key, at s or where servers point to from there.
// It returns the way that the answer came by.
func (c *Client) run(
	ctx context.Context, deadline time.Time, s *shard, call *scripts.Call, key string,
) (scripts.Reply, way, *failover.Error) {
	w := way{shard: s}
	for send := 1; ; send++ {
		result := c.send(ctx, deadline, w, call, key)
		if result.err == nil {
			c.opts.Gate.Report(w.addr(), max(call.Callers, 1), nil)
			return result.reply, w, nil
		}
		next, ok := c.repair(w, result.err)
		if !ok || send == sends {
			return scripts.Reply{}, w, c.fault(ctx, deadline, w, result)
		}
		w = next
	}
}

// send sends the call once.
func (c *Client) send(ctx context.Context, deadline time.Time, w way, call *scripts.Call, key string) outcome {
	if c.open(w) {
		return outcome{err: failover.ErrOpen}
	}
	cmd := newCommand(call, key, w.text)
	cmd.asking, cmd.deadline = w.asking, deadline
	return w.shard.send(ctx, cmd)
}
