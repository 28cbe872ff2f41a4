package cluster

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// Do takes the call to the primary that serves its key and returns the reply.
// It doesn't change call. Of a windowed plan it chooses the window, except for
// scripts.Give, and the reply's state names it.
//
// Until ctx ends, or after Options.Timeout where ctx has no deadline, it goes
// again whenever the call was refused and waiting can help. A call that may
// have run is never sent again.
//
// Every error is a *failover.Error that says what became of the call, whoever
// ended it: that ctx did is for the caller to see in ctx. So its class is
// never failover.Caller.
func (c *Client) Do(ctx context.Context, call *scripts.Call) (scripts.Reply, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if err := context.Cause(ctx); err != nil {
		return scripts.Reply{}, &failover.Error{Class: failover.NeverRan, Err: err}
	}
	var refused *failover.Error // the last time
	for wait := firstWait; ; wait = wait.next() {
		reply, shard, err := c.try(ctx, call)
		if err == nil {
			c.opts.Gate.Report(shard, nil)
			return reply, nil
		}
		if refused != nil && err.Class == failover.NeverRan && ctx.Err() != nil {
			err = refused // says more than that ctx ended before it was refused again
		}
		if !waitingHelps(err) || !wait.sleep(ctx) {
			c.report(ctx, err)
			return scripts.Reply{}, err
		}
		refused = err
	}
}

// bound returns a context that ends.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return failover.WithTimeout(ctx, c.opts.Timeout)
}

// try makes the call once: whatever is refused, it does not wait for. It
// returns the shard that was asked, too.
func (c *Client) try(ctx context.Context, call *scripts.Call) (scripts.Reply, string, *failover.Error) {
	node, fault := c.route(ctx, call.Key)
	if fault != nil {
		return scripts.Reply{}, "", fault
	}
	reply, fault := c.send(ctx, node, call)
	return reply, address(node), fault
}

// send makes the call at the node.
func (c *Client) send(ctx context.Context, node *redis.Client, call *scripts.Call) (scripts.Reply, *failover.Error) {
	switch {
	case !call.Plan.Windowed():
		return c.run(ctx, node, call, call.Key)
	case call.Op == scripts.Give:
		return c.run(ctx, node, call, keys.InWindow(call.Key, call.Window))
	default:
		return c.runInWindow(ctx, node, call)
	}
}

// ErrWindow says that the shard's clock lay in another window than the call's
// each time: it jumps, or the way to it takes longer than a window.
var ErrWindow = errors.New("the shard's clock is in another window each time")

// windowTries is how many windows a call is sent for.
const windowTries = 3

// runInWindow runs the call in the window that the shard's clock lies in. What
// it learns is put down to node, though a server may have answered that node
// redirected to: then another call has to go twice until the client knows it.
func (c *Client) runInWindow(ctx context.Context, node *redis.Client, call *scripts.Call) (scripts.Reply, *failover.Error) {
	clock := c.clocks.of(address(node))
	now, fixed := call.Clock.Micros()
	if !fixed {
		now = clock.now()
	}
	own := *call
	for range windowTries {
		own.Window = keys.Window(now, call.Plan.Limits()[0].Period)
		sent := c.clocks.local()
		reply, err := c.run(ctx, node, &own, keys.InWindow(call.Key, own.Window))
		if err != nil {
			return scripts.Reply{}, err
		}
		if !fixed {
			clock.learn(reply.Now, sent, c.clocks.local())
		}
		if reply.Granted != scripts.OtherWindow {
			return reply, nil
		}
		now = reply.Now
	}
	return scripts.Reply{}, &failover.Error{Class: failover.NeverRan, Shard: address(node), Err: ErrWindow}
}

// run runs the call's script on key: by its hash, or by its text where the
// server doesn't know it.
func (c *Client) run(ctx context.Context, node *redis.Client, call *scripts.Call, key string) (scripts.Reply, *failover.Error) {
	script := call.Script()
	cmd := newCommand(ctx, "evalsha", script.SHA, call, key)
	err := c.rdb.Process(ctx, cmd)
	if hasCode(err, "NOSCRIPT") {
		cmd = newCommand(ctx, "eval", script.Text, call, key)
		err = c.rdb.Process(ctx, cmd)
	}
	if err != nil {
		return scripts.Reply{}, c.fault(ctx, node, cmd.sent(), err)
	}
	reply, err := call.Decode(cmd.Val())
	if err != nil {
		return scripts.Reply{}, &failover.Error{Class: failover.Configuration, Shard: address(node), Err: err}
	}
	return reply, nil
}
