package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// AddNode starts one more primary, without slots, and returns once the whole
// cluster knows it and it takes commands, about 2 s later. [Cluster.Rebalance]
// gives it its share of the slots.
func (c *Cluster) AddNode(ctx context.Context) (*Node, error) {
	n, err := c.join(ctx)
	if err != nil {
		return nil, fmt.Errorf("rediscluster: add a node: %w", err)
	}
	return n, nil
}

// AddReplica starts one more replica of the primary, and returns once it's in
// step.
func (c *Cluster) AddReplica(ctx context.Context, primary *Node) (*Node, error) {
	n, err := c.join(ctx)
	if err == nil {
		err = n.follow(ctx, primary)
	}
	if err == nil {
		err = c.wait(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("rediscluster: add a replica of %s: %w", primary.Addr(), err)
	}
	return n, nil
}

func (c *Cluster) join(ctx context.Context) (*Node, error) {
	running := c.running()
	if len(running) == 0 {
		return nil, errors.New("no node runs")
	}
	nodes, err := c.launch(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := meet(ctx, running[0], nodes); err != nil {
		return nil, err
	}
	return nodes[0], c.wait(ctx)
}

// Remove takes a node out of the cluster for good, which no slot may be served
// by any more: it is killed, and the others forget it.
func (c *Cluster) Remove(ctx context.Context, n *Node) error {
	err := n.Kill(ctx)
	if err == nil {
		c.drop(n)
		err = each(c.running(), func(other *Node) error { return other.client.ClusterForget(ctx, n.id).Err() })
	}
	if err == nil {
		err = c.wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("rediscluster: remove %s: %w", n.Addr(), err)
	}
	return nil
}

func (c *Cluster) drop(n *Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(other *Node) bool { return other == n })
	c.removed = append(c.removed, n)
}

// Failover makes the replica take its primary's place in agreement with it, as
// CLUSTER FAILOVER does, and returns once the cluster has settled. Where the
// primary is gone the replica refuses: it's promoted without being told.
func (c *Cluster) Failover(ctx context.Context, replica *Node) error {
	err := replica.client.ClusterFailover(ctx).Err()
	if err == nil {
		err = poll(ctx, "the promotion", replica.promoted)
	}
	if err == nil {
		err = c.wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("rediscluster: fail over to %s: %w", replica.Addr(), err)
	}
	return nil
}

func (n *Node) promoted(ctx context.Context) error {
	m, err := n.self(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(m.flags, "master") {
		return errors.New("still a replica")
	}
	return nil
}
