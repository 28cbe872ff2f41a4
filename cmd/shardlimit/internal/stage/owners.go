package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/keys"
)

// owners knows which shard serves a slot. Shards are numbered in the order of
// the first slots that they served at first. The zero value knows of none.
// Refreshing is for one goroutine, looking up for any.
type owners struct {
	node  *redis.Client // that tells; nil: who serves what never changes
	addrs []string      // of the primaries, by number
	table atomic.Pointer[[keys.Slots]int16]
}

func (o *owners) of(slot uint16) int {
	if table := o.table.Load(); table != nil {
		return int(table[slot])
	}
	return -1
}

// single makes one server the owner of everything.
func (o *owners) single(addr string) {
	o.addrs = []string{addr}
	o.table.Store(new([keys.Slots]int16))
}

func (o *owners) refresh(ctx context.Context) error {
	if o.node == nil {
		return nil
	}
	ranges, err := o.node.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS, which it points to, needs Redis 7
	if err != nil {
		return fmt.Errorf("who serves which slots: %w", err)
	}
	if o.addrs == nil {
		o.number(ranges)
	}
	var table [keys.Slots]int16
	for i := range table {
		table[i] = -1
	}
	for _, r := range ranges {
		if len(r.Nodes) == 0 {
			return errors.New("who serves which slots: a range without nodes")
		}
		shard := int16(slices.Index(o.addrs, r.Nodes[0].Addr)) // -1: a shard that came since
		for slot := r.Start; slot <= r.End; slot++ {
			table[slot] = shard
		}
	}
	o.table.Store(&table)
	return nil
}

func (o *owners) number(ranges []redis.ClusterSlot) {
	slices.SortFunc(ranges, func(a, b redis.ClusterSlot) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range ranges {
		if len(r.Nodes) > 0 && !slices.Contains(o.addrs, r.Nodes[0].Addr) {
			o.addrs = append(o.addrs, r.Nodes[0].Addr)
		}
	}
}
