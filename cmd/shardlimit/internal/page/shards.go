package page

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

// shard is how a shard fares, as the page shows it.
type shard struct {
	shardlimit.ShardState
	Since stamp
	Err   string
	Calls string // a second
	Chart chart
}

// newShards returns the shards, and the topology where it is away.
func newShards(past *past, states []shardlimit.ShardState, now time.Time) []shard {
	var list []shard
	for _, state := range states {
		if state.Address == topology && !state.Open && !state.Fallback {
			continue
		}
		calls := past.shards[state.Address]
		if calls == nil {
			calls = new(series)
		}
		list = append(list, shard{
			ShardState: state, Since: stamp{state.Since, now}, Err: visible(clip(state.Err, detailCap)),
			Calls: rate(calls.now().all()), Chart: newChart(calls, sparkHeight),
		})
	}
	return list
}

// topology is the address of what stands for it.
const topology = ""

// sparkHeight is that of charts in tables.
const sparkHeight = 16
