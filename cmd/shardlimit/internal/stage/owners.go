package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/keys"
)

// owners knows which shard serves a slot. Shards are numbered in the order of
// the first slots that they served at first; each is the primary that it had
// then and its replicas, whichever of them leads. The zero value knows of none.
// It is safe for concurrent use.
type owners struct {
	node  func() *redis.Client // one that tells; nil: who serves what never changes
	table atomic.Pointer[[keys.Slots]int16]

	// mu guards what was seen last.
	mu     sync.Mutex
	shards []owner
}

// owner is one shard.
type owner struct {
	nodes   []string // the addresses of all that were ever seen in it
	primary string
	slots   int
}

func (o *owners) of(slot uint16) int {
	if table := o.table.Load(); table != nil {
		return int(table[slot])
	}
	return -1
}

// single makes one server the owner of everything.
func (o *owners) single(addr string) {
	o.shards = []owner{{nodes: []string{addr}, primary: addr, slots: keys.Slots}}
	o.table.Store(new([keys.Slots]int16))
}

// all returns the shards by number.
func (o *owners) all() []owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.shards)
}

// number returns the shard that a node belongs to, or -1.
func (o *owners) number(addr string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.withLocked(addr)
}

func (o *owners) refresh(ctx context.Context) error {
	if o.node == nil {
		return nil
	}
	ranges, err := o.node().ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS, which it points to, needs Redis 7
	if err == nil {
		err = o.see(ranges)
	}
	if err != nil {
		return fmt.Errorf("who serves which slots: %w", err)
	}
	return nil
}

// see takes in what a node told.
func (o *owners) see(ranges []redis.ClusterSlot) error {
	if slices.ContainsFunc(ranges, func(r redis.ClusterSlot) bool { return len(r.Nodes) == 0 }) {
		return errors.New("a range without nodes")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.shards == nil
	if first {
		slices.SortFunc(ranges, func(a, b redis.ClusterSlot) int { return cmp.Compare(a.Start, b.Start) })
	}
	var table [keys.Slots]int16
	for i := range table {
		table[i] = -1
	}
	for i := range o.shards {
		o.shards[i].slots = 0
	}
	for _, r := range ranges {
		shard := o.shardLocked(r.Nodes, first)
		for slot := r.Start; slot <= r.End; slot++ {
			table[slot] = int16(shard)
		}
		if shard >= 0 {
			o.shards[shard].slots += r.End - r.Start + 1
		}
	}
	o.table.Store(&table)
	return nil
}

// shardLocked returns the number of the shard that these nodes are, the primary
// first, and notes who is in it: a new replica isn't told of at once. It's -1
// where none of them was seen before, unless shards may still be added.
func (o *owners) shardLocked(nodes []redis.ClusterNode, add bool) int {
	shard := -1
	for _, n := range slices.Backward(nodes) { // the primary has the last word
		if i := o.withLocked(n.Addr); i >= 0 {
			shard = i
		}
	}
	if shard < 0 && add {
		shard = len(o.shards)
		o.shards = append(o.shards, owner{})
	}
	if shard < 0 {
		return shard
	}
	for _, n := range nodes {
		if i := o.withLocked(n.Addr); i >= 0 && i != shard { // it followed another
			o.shards[i].nodes = slices.DeleteFunc(slices.Clone(o.shards[i].nodes), func(a string) bool { return a == n.Addr })
		}
		if o.withLocked(n.Addr) < 0 {
			o.shards[shard].nodes = append(o.shards[shard].nodes, n.Addr)
		}
	}
	o.shards[shard].primary = nodes[0].Addr
	return shard
}

// withLocked returns the number of the shard that a node is in, or -1.
func (o *owners) withLocked(addr string) int {
	return slices.IndexFunc(o.shards, func(s owner) bool { return slices.Contains(s.nodes, addr) })
}
