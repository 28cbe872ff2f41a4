package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
)

// Gate says which shards calls go to, and learns how they fare there, as
// failover.Breakers do. A shard is named by the address of its primary; "" is
// that none could be found for lack of a topology. The methods must be safe for
// concurrent use and quick.
type Gate interface {
	// Open reports whether the shard's breaker is open: then a call isn't sent.
	Open(shard string) bool
	// Report is told how each call to the shard ended, once; err is nil if it
	// was answered. It isn't told of calls that met an open breaker, nor of
	// those that got no answer because their caller gave up.
	Report(shard string, err *failover.Error)
}

// noGate lets every call through.
type noGate struct{}

func (noGate) Open(string) bool               { return false }
func (noGate) Report(string, *failover.Error) {}

// route returns the primary that the key's calls go to, if they go out.
func (c *Client) route(ctx context.Context, key string) (*redis.Client, *failover.Error) {
	if c.opts.Gate.Open("") {
		return nil, &failover.Error{Class: failover.NeverRan, Err: failover.ErrOpen}
	}
	node, err := c.primary(ctx, key)
	if err != nil {
		return nil, c.fault(ctx, nil, false, err)
	}
	if shard := address(node); c.opts.Gate.Open(shard) {
		return nil, &failover.Error{Class: failover.NeverRan, Shard: shard, Err: failover.ErrOpen}
	}
	return node, nil
}

// report tells the gate of a call that got no answer.
func (c *Client) report(ctx context.Context, err *failover.Error) {
	if errors.Is(err, failover.ErrOpen) || err.Class.Unavailable() && failover.CallerEnded(ctx) {
		return
	}
	c.opts.Gate.Report(err.Shard, err)
}

// probe is a script that a server refuses for whatever reason it would refuse
// a decision: it says that it writes, and names a key. It does nothing. TIME or
// PING would pass while the server loads its data or the cluster is down.
const probe = "#!lua\nreturn 1"

// Probe asks the shard to run a script that does nothing, and returns nil or a
// *failover.Error. Of the shard "" it asks for a topology.
func (c *Client) Probe(ctx context.Context, shard string) error {
	key, node, err := c.probed(ctx, shard)
	if err == nil && node != nil {
		err = node.Eval(ctx, probe, []string{key}).Err()
	}
	reply, ok := errors.AsType[redis.Error](err)
	switch {
	case err == nil || hasCode(err, "ASK"): // the slot is on its way: there is no such key here
		return nil
	case ok:
		return &failover.Error{Class: failover.ClassOfReply(reply.Error()), Shard: shard, Err: err}
	default:
		return &failover.Error{Class: failover.NeverRan, Shard: shard, Err: err} // or it ran, and did nothing
	}
}

// errNoSlots says that a shard is to be probed which serves none.
var errNoSlots = errors.New("the shard serves no slots")

// probed returns the node of the shard and a key that it serves. There is no
// node of the shard "".
func (c *Client) probed(ctx context.Context, shard string) (string, *redis.Client, error) {
	for i := range 1 << 14 { // a shard of one slot in a thousand is found with all but certainty
		key := fmt.Sprintf("%s:{%d}:probe", c.opts.Prefix, i)
		node, err := c.primary(ctx, key)
		switch {
		case err != nil:
			return "", nil, err
		case shard == "":
			return "", nil, nil
		case address(node) == shard:
			return key, node, nil
		}
	}
	return "", nil, errNoSlots
}

// Reload asks who serves what, and waits for the answer until ctx ends. Where
// there is none, what was known stays so.
func (c *Client) Reload(ctx context.Context) {
	if c.cluster == nil {
		c.shards.Store(&[]string{address(c.single)})
		return
	}
	var mu sync.Mutex
	var shards []string
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		shards = append(shards, address(node))
		return nil
	})
	if err == nil {
		c.shards.Store(&shards)
	}
}

// Shards returns the addresses of the primaries that serve slots, as the last
// Reload learnt them; none before.
func (c *Client) Shards() []string {
	if known := c.shards.Load(); known != nil {
		return slices.Clone(*known)
	}
	return nil
}
