package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/keys"
)

// A slot is crowded that holds more keys than few, and this many times its
// share. It's busy that took more than half of all its shard's slots did, and not
// little.
const (
	few    = 10_000
	times  = 100
	little = 10 * time.Second
)

// slotLoad is what a slot holds, and how busy it kept its primary.
type slotLoad struct {
	slot int
	keys int64
	took time.Duration // of the CPU
}

// shardLoad is that of a primary's slots. Not every server knows how long they
// took, and few tell it without being asked to count.
type shardLoad struct {
	slots []slotLoad
	timed bool
}

// loadSpreads looks for slots that hold too many of the keys or take most of the
// time: a slot can't be split, so what it has stays together for ever.
func loadSpreads(ctx context.Context, p *patient) Finding {
	if p.opts.Single {
		return fine("no cluster")
	}
	if len(p.shards) == 0 {
		return unread(errNoShards)
	}
	var all []shardLoad
	for _, n := range p.primaries() {
		p.say("asking for the load of the slots of " + n.addr)
		load, err := n.load(ctx, p.slotsOf(n))
		if err != nil {
			return unread(fmt.Errorf("CLUSTER COUNTKEYSINSLOT at %s: %w", n.addr, err))
		}
		all = append(all, load)
	}
	return judgeLoad(all)
}

// judgeLoad judges by time where all primaries know it, and by keys in any case.
func judgeLoad(all []shardLoad) Finding {
	var slots []slotLoad
	for _, shard := range all {
		slots = append(slots, shard.slots...)
	}
	keys := judgeKeys(slots)
	if len(all) == 0 || slices.ContainsFunc(all, func(s shardLoad) bool { return !s.timed }) {
		keys.Read = "by keys, as the servers tell no time (cluster-slot-stats-enabled of Redis 8.2, Valkey 8): " + keys.Read
		return keys
	}
	f := judgeTime(all, slots)
	f.Read = "by time: " + f.Read + "; by keys: " + keys.Read
	if keys.Verdict > f.Verdict {
		f.Verdict, f.Advice = keys.Verdict, keys.Advice
	}
	return f
}

func judgeKeys(all []slotLoad) Finding {
	var total int64
	for _, s := range all {
		total += s.keys
	}
	if total == 0 {
		return fine("no keys")
	}
	top := most(all, func(s slotLoad) int64 { return s.keys }, func(s slotLoad) string { return fmt.Sprint(s.keys) })
	read := fmt.Sprintf("%d keys; the fullest slots: %s", total, top)
	if fullest := all[0]; fullest.keys <= few || fullest.keys*keys.Slots <= times*total {
		return Finding{Read: read}
	}
	return Finding{
		Verdict: Warning, Read: read,
		Advice: "look whose keys share the hash tag there: a limiter's spread by subject, and one slot stays on one primary for ever",
	}
}

func judgeTime(shards []shardLoad, all []slotLoad) Finding {
	top := most(all, func(s slotLoad) int64 { return int64(s.took) }, func(s slotLoad) string { return s.took.String() })
	read := "the hottest slots: " + top
	for _, shard := range shards {
		var total time.Duration
		for _, s := range shard.slots {
			total += s.took
		}
		for _, s := range shard.slots {
			if total > little && s.took > total/2 {
				return Finding{
					Verdict: Warning, Read: fmt.Sprintf("slot %d took %v of its shard's %v; %s", s.slot, s.took, total, read),
					Advice: "look for its subject, as at the head of the page or of inspect: leases take calls off it, and Parts spread it over several shards",
				}
			}
		}
	}
	return Finding{Read: read}
}

// most sorts all by this measure, the greatest first, and returns the first
// three as text.
func most(all []slotLoad, by func(slotLoad) int64, text func(slotLoad) string) string {
	slices.SortStableFunc(all, func(a, b slotLoad) int { return cmp.Compare(by(b), by(a)) })
	var top []string
	for _, s := range all[:min(3, len(all))] {
		top = append(top, fmt.Sprintf("%d (%s)", s.slot, text(s)))
	}
	return strings.Join(top, ", ")
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

// load returns the load of the slots in the ranges: by the server's own
// statistics where it has some and gives them, else by counting keys.
func (n *node) load(ctx context.Context, ranges []redis.SlotRange) (shardLoad, error) {
	reply, err := n.client.Do(ctx, "cluster", "slot-stats", "slotsrange", 0, keys.Slots-1).Result()
	if err == nil {
		if load, ok := readSlotStats(reply); ok {
			return load, nil
		}
	}
	slots, err := n.count(ctx, ranges)
	return shardLoad{slots: slots}, err
}

// readSlotStats reads the reply of CLUSTER SLOT-STATS: of each slot its number,
// and its statistics by name. It reports false if it's none.
func readSlotStats(reply any) (load shardLoad, ok bool) {
	list, ok := reply.([]any)
	load.timed = len(list) > 0
	for _, item := range list {
		pair, _ := item.([]any)
		if len(pair) != 2 {
			return shardLoad{}, false
		}
		slot, isSlot := pair[0].(int64)
		stats := byName(pair[1])
		count, counted := stats["key-count"]
		if !isSlot || !counted {
			return shardLoad{}, false
		}
		took, timed := stats["cpu-usec"]
		load.timed = load.timed && timed
		load.slots = append(load.slots, slotLoad{int(slot), count, time.Duration(took) * time.Microsecond})
	}
	return load, ok
}

// byName returns the whole numbers of a map, which RESP2 has as a list of names
// and values.
func byName(reply any) map[string]int64 {
	all := map[string]int64{}
	put := func(name, value any) {
		if n, ok := value.(int64); ok {
			all[fmt.Sprint(name)] = n
		}
	}
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			put(name, value)
		}
	case []any:
		for pair := range slices.Chunk(reply, 2) {
			put(pair[0], pair[len(pair)-1])
		}
	}
	return all
}

// count counts the keys in each slot of the ranges, a thousand in each round
// trip.
func (n *node) count(ctx context.Context, ranges []redis.SlotRange) ([]slotLoad, error) {
	var all []int
	for _, r := range ranges {
		for slot := r.Start; slot <= r.End; slot++ {
			all = append(all, int(slot))
		}
	}
	var counted []slotLoad
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
			counted = append(counted, slotLoad{slot: some[i], keys: reply.(*redis.IntCmd).Val()})
		}
	}
	return counted, nil
}
