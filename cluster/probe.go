package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardlimit/shardlimit/failover"
)

// Shards returns the addresses of the primaries that calls went to of late.
func (c *Client) Shards() []string {
	var addrs []string
	for _, s := range c.shards.all() {
		if s.lastKey() != "" {
			addrs = append(addrs, s.addr)
		}
	}
	slices.Sort(addrs)
	return addrs
}

// Reload makes the client find out anew who serves what, in the background.
func (c *Client) Reload() { c.reload() }

// ErrProbing says that an earlier probe of the shard has not come back.
var ErrProbing = errors.New("an earlier probe is still under way")

// Probe asks the shard at an address, with no call's decision at stake, whether
// it would answer one: it reads the key that was last asked for there. That the
// shard doesn't serve the key any more is an answer too. Probe returns when ctx
// ends, whatever the client's options are.
func (c *Client) Probe(ctx context.Context, addr string) error {
	s := c.shards.at(addr)
	if s == nil {
		return fmt.Errorf("no shard is known at %q", addr)
	}
	if !s.startProbe() {
		return ErrProbing
	}
	return apart(ctx, func(ctx context.Context) error {
		defer s.endProbe()
		return answers(s.node.Get(ctx, s.lastKey()).Err())
	})
}

// answers returns nil if err is from a server that serves, whatever it thinks
// of the command.
func answers(err error) error {
	text := replyText(err)
	switch failover.ReplyCode(text) {
	case "", "LOADING", "CLUSTERDOWN", "MASTERDOWN":
		return err
	}
	return nil
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
