package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// MoveSlot gives the slot to another primary, key by key, as redis-cli and
// operators do. It takes about as long as pace says: the keys found at each
// time are spread over what is left of it, and a slot without keys stays half
// moved until then. Where ctx ends first the slot stays half moved, and another
// call with the same target finishes it.
//
// See https://redis.io/docs/latest/commands/cluster-setslot/.
func (c *Cluster) MoveSlot(ctx context.Context, slot int, to *Node, pace time.Duration) error {
	if err := c.moveSlot(ctx, slot, to, pace); err != nil {
		return fmt.Errorf("rediscluster: move slot %d to %s: %w", slot, to.Addr(), err)
	}
	return nil
}

func (c *Cluster) moveSlot(ctx context.Context, slot int, to *Node, pace time.Duration) error {
	from, err := c.Owner(ctx, slot)
	if err != nil || from == to {
		return err
	}
	m := move{from: from, to: to, slots: []int{slot}}
	if m.others, err = c.Primaries(ctx); err != nil {
		return err
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	if err := m.trickle(ctx, slot, time.Now().Add(pace)); err != nil {
		return err
	}
	return m.finish(ctx)
}

// Reshard gives the first n of one primary's slots to another, as fast as it
// goes. The slots are on the move a few dozen at a time.
func (c *Cluster) Reshard(ctx context.Context, from, to *Node, n int) error {
	if err := c.reshard(ctx, from, to, n); err != nil {
		return fmt.Errorf("rediscluster: move %d slots from %s to %s: %w", n, from.Addr(), to.Addr(), err)
	}
	return nil
}

func (c *Cluster) reshard(ctx context.Context, from, to *Node, n int) error {
	self, err := from.self(ctx)
	if err != nil {
		return err
	}
	others, err := c.Primaries(ctx)
	if err != nil {
		return err
	}
	slots := self.firstSlots(n)
	if len(slots) < n || from == to {
		return fmt.Errorf("it has %d to give to another", len(slots))
	}
	const together = 32
	for some := range slices.Chunk(slots, together) {
		m := move{from: from, to: to, others: others, slots: some}
		if err := m.open(ctx); err != nil {
			return err
		}
		if err := m.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Rebalance evens out the slots over all primaries: each serves as many as any
// other, or one more. It returns once the cluster has settled.
func (c *Cluster) Rebalance(ctx context.Context) error {
	if err := c.rebalance(ctx); err != nil {
		return fmt.Errorf("rediscluster: rebalance: %w", err)
	}
	return nil
}

func (c *Cluster) rebalance(ctx context.Context) error {
	primaries, err := c.Primaries(ctx)
	if err != nil {
		return err
	}
	counts := make([]int, len(primaries))
	for i, n := range primaries {
		if counts[i], err = n.SlotCount(ctx); err != nil {
			return err
		}
	}
	for _, t := range evenOut(counts) {
		if err := c.reshard(ctx, primaries[t.from], primaries[t.to], t.slots); err != nil {
			return err
		}
	}
	return c.wait(ctx)
}

// transfer says how many slots go from one primary to another, by index.
type transfer struct{ from, to, slots int }

// evenOut returns the fewest slots' worth of transfers after which no count is
// more than one above another.
func evenOut(counts []int) []transfer {
	counts = slices.Clone(counts)
	var plan []transfer
	for {
		from, to := indexOf(counts, slices.Max), indexOf(counts, slices.Min)
		if counts[from]-counts[to] <= 1 {
			return plan
		}
		mean := sum(counts) / len(counts)
		n := max(1, min(counts[from]-mean, mean-counts[to]))
		counts[from] -= n
		counts[to] += n
		plan = append(plan, transfer{from, to, n})
	}
}

func indexOf(counts []int, which func([]int) int) int { return slices.Index(counts, which(counts)) }

func sum(counts []int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// firstSlots returns the first n slots that it serves, or all if it's fewer.
func (m member) firstSlots(n int) []int {
	var slots []int
	for _, r := range m.slots {
		for s := r.first; s <= r.last && len(slots) < n; s++ {
			slots = append(slots, s)
		}
	}
	return slots
}

// move is some slots on their way from one primary to another. Until it's
// finished, the source sends callers of keys that it no longer has to the
// target with ASK, so that new keys appear there alone.
type move struct {
	from, to *Node
	others   []*Node // all primaries; those two may be among them
	slots    []int
}

// open tells both of the move: the target first, which would otherwise turn
// away those whom the source sends.
func (m move) open(ctx context.Context) error {
	if err := m.setSlots(ctx, m.to, "IMPORTING", m.from.id); err != nil {
		return err
	}
	return m.setSlots(ctx, m.from, "MIGRATING", m.to.id)
}

// finish moves what keys there are and gives the slots to the target.
func (m move) finish(ctx context.Context) error {
	for _, slot := range m.slots {
		if err := m.drain(ctx, slot); err != nil {
			return err
		}
	}
	if err := m.catchUp(ctx); err != nil {
		return err
	}
	// The target first: were the source first and then to fail, nobody would
	// serve the slots. The rest would learn of it by gossip, a little later.
	if err := m.setSlots(ctx, m.to, "NODE", m.to.id); err != nil {
		return err
	}
	if err := m.setSlots(ctx, m.from, "NODE", m.to.id); err != nil && !redis.HasErrorPrefix(err, emptied) {
		return err
	}
	for _, n := range m.others {
		if n == m.from || n == m.to || !n.Running() {
			continue
		}
		if err := m.setSlots(ctx, n, "NODE", m.to.id); err != nil {
			return err
		}
	}
	return nil
}

// catchUp waits until the target has heard of every configuration epoch, so
// that the one that it takes for the move is the greatest. Two moves in a row to
// different targets, quicker than gossip, would both take the same: then one
// target is given another, and where that is the source of the other's slot, a
// ping that it sent before it gave the slot away takes the slot back. From then
// on each of the two says that the other serves it.
func (m move) catchUp(ctx context.Context) error {
	return poll(ctx, m.to.Addr()+" to hear of the latest epoch", func(ctx context.Context) error {
		own, err := m.to.epoch(ctx)
		if err != nil {
			return err
		}
		for _, n := range m.others {
			if n == m.to || !n.Running() {
				continue
			}
			if epoch, err := n.epoch(ctx); err != nil || epoch > own {
				return errors.Join(err, fmt.Errorf("it knows of %d, %s of %d", own, n.Addr(), epoch))
			}
		}
		return nil
	})
}

// epoch returns the latest configuration epoch that the node has heard of.
func (n *Node) epoch(ctx context.Context) (int, error) {
	info, err := n.client.ClusterInfo(ctx).Result()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(field(info, "cluster_current_epoch"))
}

// emptied is how a node replies that gave its last slot away: it has heard of
// that already, and follows the new owner as a replica.
const emptied = "Please use SETSLOT only with"

// setSlots sends one CLUSTER SETSLOT a slot, all at once: a node saves its
// configuration once for all of them.
func (m move) setSlots(ctx context.Context, n *Node, what, id string) error {
	_, err := n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, slot := range m.slots {
			p.Do(ctx, "CLUSTER", "SETSLOT", slot, what, id)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("SETSLOT %s at %s: %w", what, n.Addr(), err)
	}
	return nil
}

// trickle moves the slot's keys one at a time, so that the last goes at end.
func (m move) trickle(ctx context.Context, slot int, end time.Time) error {
	for {
		count, err := m.from.client.ClusterCountKeysInSlot(ctx, slot).Result()
		if err != nil {
			return err
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if err := Pause(ctx, left/time.Duration(count+1)); err != nil {
			return err
		}
		if err := m.moveSome(ctx, slot, 1); err != nil && !errors.Is(err, errNoKeys) {
			return err
		}
	}
}

// drain moves the slot's keys until there are none.
func (m move) drain(ctx context.Context, slot int) error {
	for {
		err := m.moveSome(ctx, slot, 100)
		if errors.Is(err, errNoKeys) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errNoKeys says that the source has no keys of the slot.
var errNoKeys = errors.New("no keys")

// moveSome moves some of the slot's keys. One that expires meanwhile is no
// error: MIGRATE answers NOKEY where all are gone.
func (m move) moveSome(ctx context.Context, slot, most int) error {
	found, err := m.from.client.ClusterGetKeysInSlot(ctx, slot, most).Result()
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errNoKeys
	}
	host, port, err := net.SplitHostPort(m.to.Addr())
	if err != nil {
		return err
	}
	const timeout = 1000 // ms
	args := []any{"MIGRATE", host, port, "", 0, timeout, "KEYS"}
	for _, key := range found {
		args = append(args, key)
	}
	return m.from.client.Do(ctx, args...).Err()
}
