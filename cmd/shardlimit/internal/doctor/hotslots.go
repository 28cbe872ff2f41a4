package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/keys"
)

// A slot is crowded that holds more keys than few, and this many times its
// share.
const (
	few   = 10_000
	times = 100
)

// slotKeys is how many keys a slot holds.
type slotKeys struct {
	slot int
	keys int64
}

// keysSpread looks for slots that hold too many of the keys: a slot can't be
// split, so its keys stay together for ever.
func keysSpread(ctx context.Context, p *patient) Finding {
	if p.opts.Single {
		return fine("no cluster")
	}
	if len(p.shards) == 0 {
		return unread(errNoShards)
	}
	var all []slotKeys
	for _, n := range p.primaries() {
		p.say("counting the keys in the slots of " + n.addr)
		counted, err := n.slots(ctx, p.slotsOf(n))
		if err != nil {
			return unread(fmt.Errorf("CLUSTER COUNTKEYSINSLOT at %s: %w", n.addr, err))
		}
		all = append(all, counted...)
	}
	return judgeSpread(all)
}

func judgeSpread(all []slotKeys) Finding {
	slices.SortStableFunc(all, func(a, b slotKeys) int { return cmp.Compare(b.keys, a.keys) })
	var total int64
	for _, s := range all {
		total += s.keys
	}
	if total == 0 {
		return fine("no keys")
	}
	top := all[:min(3, len(all))]
	var fullest []string
	for _, s := range top {
		fullest = append(fullest, fmt.Sprintf("%d (%d)", s.slot, s.keys))
	}
	read := fmt.Sprintf("%d keys; the fullest slots: %s", total, strings.Join(fullest, ", "))
	if top[0].keys <= few || top[0].keys*keys.Slots <= times*total {
		return Finding{Read: read}
	}
	return Finding{
		Verdict: Warning, Read: read,
		Advice: "look whose keys share the hash tag there: a limiter's spread by subject, and one slot stays on one primary for ever",
	}
}

// slotsOf returns the ranges of slots that a primary serves.
func (p *patient) slotsOf(n *node) []redis.SlotRange {
	for _, shard := range p.shards {
		if slices.ContainsFunc(shard.Nodes, func(other redis.Node) bool { return other.ID == n.id }) {
			return shard.Slots
		}
	}
	return nil
}

// slots counts the keys in each slot of the ranges, a thousand in each round
// trip.
func (n *node) slots(ctx context.Context, ranges []redis.SlotRange) ([]slotKeys, error) {
	var all []int
	for _, r := range ranges {
		for slot := r.Start; slot <= r.End; slot++ {
			all = append(all, int(slot))
		}
	}
	var counted []slotKeys
	for some := range slices.Chunk(all, 1000) {
		pipe := n.client.Pipeline()
		for _, slot := range some {
			pipe.ClusterCountKeysInSlot(ctx, slot)
		}
		replies, err := pipe.Exec(ctx)
		if err != nil {
			return nil, err
		}
		for i, reply := range replies {
			counted = append(counted, slotKeys{some[i], reply.(*redis.IntCmd).Val()})
		}
	}
	return counted, nil
}
