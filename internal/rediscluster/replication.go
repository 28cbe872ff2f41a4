package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// noticing is how soon what is waited for here is noticed: whoever waits
// measures it, or counts what happens meanwhile.
const noticing = 2 * time.Millisecond

// InStep returns once the primary's running replicas have all that it had
// written when this was called.
func (c *Cluster) InStep(ctx context.Context, primary *Node) error {
	replicas, err := c.Replicas(ctx, primary)
	if err != nil {
		return err
	}
	written, err := primary.offset(ctx, "master_repl_offset")
	if err != nil {
		return fmt.Errorf("rediscluster: written by %s: %w", primary.Addr(), err)
	}
	return each(replicas, func(r *Node) error {
		return pollEvery(ctx, noticing, r.Addr()+" to be in step", func(ctx context.Context) error {
			has, err := r.offset(ctx, "slave_repl_offset")
			if err == nil && has < written {
				err = fmt.Errorf("it has %d of %d bytes", has, written)
			}
			return err
		})
	})
}

// offset returns a position in the stream that a primary sends its replicas.
func (n *Node) offset(ctx context.Context, name string) (int64, error) {
	info, err := n.client.Info(ctx, "replication").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(field(info, name), 10, 64)
}

// Successor returns the node that serves the slot once that isn't the one that
// did before: as soon as it says so itself.
func (c *Cluster) Successor(ctx context.Context, slot int, before *Node) (*Node, error) {
	var owner *Node
	err := pollEvery(ctx, noticing, "a successor of "+before.Addr(), func(ctx context.Context) (err error) {
		owner, err = c.Owner(ctx, slot)
		if err == nil && owner == before {
			err = errors.New("it serves still")
		}
		return err
	})
	return owner, err
}
