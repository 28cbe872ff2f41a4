package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// form starts the nodes of a new cluster and makes one of them.
func (c *Cluster) form(ctx context.Context) error {
	nodes, err := c.launch(ctx, c.opts.Shards*(1+c.opts.Replicas))
	if err != nil {
		return err
	}
	primaries, replicas := nodes[:c.opts.Shards], nodes[c.opts.Shards:]
	if err := shareSlots(ctx, primaries); err != nil {
		return err
	}
	if err := meet(ctx, nodes[0], nodes[1:]); err != nil {
		return err
	}
	for i, r := range replicas {
		if err := r.follow(ctx, primaries[i%len(primaries)]); err != nil {
			return err
		}
	}
	return c.wait(ctx)
}

// launch starts empty nodes, side by side.
func (c *Cluster) launch(ctx context.Context, count int) ([]*Node, error) {
	nodes, errs := make([]*Node, count), make([]error, count)
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() { nodes[i], errs[i] = c.startNode(ctx) })
	}
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if n != nil {
			c.nodes = append(c.nodes, n)
		}
	}
	return nodes, errors.Join(errs...)
}

func (c *Cluster) startNode(ctx context.Context) (*Node, error) {
	n, err := startNode(ctx, c.launcher, c.opts, c.opts.clusterFlags)
	if err != nil {
		return nil, err
	}
	n.id, err = n.client.Do(ctx, "CLUSTER", "MYID").Text()
	return n, err
}

// shareSlots gives each primary its part of the slots and a configuration
// epoch of its own, so that they needn't find out who is who by collision.
func shareSlots(ctx context.Context, primaries []*Node) error {
	return each(primaries, func(n *Node) error {
		i := slices.Index(primaries, n)
		first, end := i*Slots/len(primaries), (i+1)*Slots/len(primaries)
		if err := n.client.ClusterAddSlotsRange(ctx, first, end-1).Err(); err != nil {
			return err
		}
		return n.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
	})
}

// meet introduces newcomers to the cluster that n is in. The rest of it learns
// of them by gossip.
func meet(ctx context.Context, n *Node, newcomers []*Node) error {
	for _, other := range newcomers {
		host, port, err := net.SplitHostPort(other.Addr())
		if err != nil {
			return err
		}
		if err := n.client.ClusterMeet(ctx, host, port).Err(); err != nil {
			return fmt.Errorf("introduce %s: %w", other.Addr(), err)
		}
	}
	return nil
}

// follow makes n a replica, as soon as it has heard of the primary.
func (n *Node) follow(ctx context.Context, primary *Node) error {
	return poll(ctx, n.Addr()+" to follow "+primary.Addr(), func(ctx context.Context) error {
		return n.client.ClusterReplicate(ctx, primary.id).Err()
	})
}

// Wait returns once the running nodes agree on who serves what, see every slot
// served by one of them, and every replica among them is in step. After a Kill
// or Hang that is when a replica has been promoted, so never where there is
// none; after a Restart or Resume, when the node has been taken back.
func (c *Cluster) Wait(ctx context.Context) error {
	if err := c.wait(ctx); err != nil {
		return fmt.Errorf("rediscluster: %w", err)
	}
	return nil
}

func (c *Cluster) wait(ctx context.Context) error {
	return poll(ctx, "the cluster to settle", c.settled)
}

func (c *Cluster) settled(ctx context.Context) error {
	running := c.running()
	if len(running) == 0 {
		return finalError{errors.New("no node runs")}
	}
	if err := each(running, func(n *Node) error { return n.ok(ctx) }); err != nil {
		return err
	}
	var agreed string
	for _, n := range running {
		members, err := c.seenBy(ctx, n, running)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Addr(), err)
		}
		seen := layout(members)
		if agreed == "" {
			agreed = seen
		}
		if seen != agreed {
			return fmt.Errorf("%s sees\n%s\nand %s\n%s", running[0].Addr(), agreed, n.Addr(), seen)
		}
	}
	return nil
}

// ok reports whether the node takes commands and, as a replica, is in step.
func (n *Node) ok(ctx context.Context) error {
	info, err := n.client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if s := field(info, "cluster_state"); s != "ok" {
		return fmt.Errorf("cluster_state is %q", s)
	}
	repl, err := n.client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if s := field(repl, "master_link_status"); s != "" && s != "up" {
		return fmt.Errorf("master_link_status is %q", s)
	}
	return nil
}

// seenBy returns how n sees the running nodes, or what is still amiss: it
// doesn't know one of them or suspects it, or they don't serve every slot.
func (c *Cluster) seenBy(ctx context.Context, n *Node, running []*Node) ([]member, error) {
	members, err := n.members(ctx)
	if err != nil {
		return nil, err
	}
	// A node that came late goes on introducing itself to those that are gone.
	if all := len(c.Nodes()); len(running) == all && len(members) != all {
		return nil, fmt.Errorf("knows %d nodes of %d", len(members), all)
	}
	members = slices.DeleteFunc(members, func(m member) bool {
		return !slices.ContainsFunc(running, func(n *Node) bool { return n.id == m.id })
	})
	if len(members) != len(running) {
		return nil, fmt.Errorf("knows %d running nodes of %d", len(members), len(running))
	}
	slots := 0
	for _, m := range members {
		if m.is("handshake") || m.is("fail") || m.is("fail?") || m.is("noaddr") {
			return nil, fmt.Errorf("%s is %v", m.id, m.flags)
		}
		if !m.linked { // without the link a failover, say, waits for it and the clients with it
			return nil, fmt.Errorf("%s isn't connected", m.id)
		}
		slots += m.slotCount()
	}
	if slots != Slots {
		return nil, fmt.Errorf("sees %d slots of %d served", slots, Slots)
	}
	return members, nil
}
