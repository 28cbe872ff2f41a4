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

// Shards returns the addresses of the primaries that serve slots, as the last
// Reload learnt them; none before.
func (c *Client) Shards() []string {
	if known := c.topology.Load(); known != nil {
		return slices.Clone(*known)
	}
	return nil
}

// Reload asks who serves what, and waits for the answer until ctx ends. Where
// there is none, what was known stays so.
func (c *Client) Reload(ctx context.Context) {
	if c.cluster == nil {
		c.topology.Store(&[]string{c.single.Options().Addr})
		return
	}
	var mu sync.Mutex
	var addrs []string
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addrs = append(addrs, node.Options().Addr)
		return nil
	})
	if err == nil {
		c.topology.Store(&addrs)
	}
}

// ErrProbing says that an earlier probe of the shard has not come back.
var ErrProbing = errors.New("an earlier probe is still under way")

// probe is a script that a server refuses for whatever reason it would refuse
// a decision: it says that it writes, and names a key. It does nothing. TIME or
// PING would pass while the server loads its data or the cluster is down.
const probe = "#!lua\nreturn 1"

// Probe asks the shard at an address, with no call's decision at stake, to run
// a script that does nothing, on the key that was last asked for there. It
// returns nil or a *failover.Error, when ctx ends at the latest, whatever the
// client's options are. Of the shard "" it asks for a topology.
func (c *Client) Probe(ctx context.Context, addr string) error {
	if addr == "" {
		return verdict("", c.search(ctx))
	}
	s := c.shards.at(addr)
	if s == nil {
		return verdict(addr, fmt.Errorf("no shard is known at %q", addr))
	}
	if !s.startProbe() {
		return verdict(addr, ErrProbing)
	}
	return verdict(addr, apart(ctx, func(ctx context.Context) error {
		defer s.endProbe()
		return s.node.Eval(ctx, probe, []string{s.lastKey()}).Err()
	}))
}

// search finds out who serves what, if that isn't known.
func (c *Client) search(ctx context.Context) error {
	if c.cluster == nil {
		return nil
	}
	return c.discover(ctx, c.deadline(ctx), "")
}

// verdict says what a probe's error means. That the shard doesn't serve the key
// any more is an answer.
func verdict(addr string, err error) error {
	if err == nil || hasCode(err, "MOVED") || hasCode(err, "ASK") {
		return nil
	}
	class := failover.NeverRan // or it ran, and did nothing
	if text := replyText(err); text != "" {
		class = failover.ClassOfReply(text)
	}
	return &failover.Error{Class: class, Shard: addr, Err: err}
}

// apart runs do in a goroutine of its own, and waits for it no longer than
// until ctx ends.
func apart(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return cause(ctx)
	}
}

func (s *shard) lastKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *shard) startProbe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probing {
		return false
	}
	s.probing = true
	return true
}

func (s *shard) endProbe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probing = false
}
