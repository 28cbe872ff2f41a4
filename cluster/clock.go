package cluster

import (
	"sync"
	"sync/atomic"
	"time"
)

// clocks tells what the shards' clocks show. Each shard's has its own distance
// from this process's, which its replies teach.
type clocks struct {
	start  time.Time // with the monotonic clock's reading
	micros int64     // µs since 1970 at start, as this process believes
	shards *sync.Map // of address to *clock
}

func newClocks() clocks {
	start := time.Now()
	return clocks{start: start, micros: start.UnixMicro(), shards: &sync.Map{}}
}

// local returns µs since 1970 by this process's clock, which never jumps.
func (cs *clocks) local() int64 {
	return cs.micros + time.Since(cs.start).Microseconds()
}

// of returns the clock of the shard at an address.
func (cs *clocks) of(shard string) *clock {
	c, ok := cs.shards.Load(shard)
	if !ok {
		c, _ = cs.shards.LoadOrStore(shard, &clock{local: cs.local})
	}
	return c.(*clock)
}

// clock is one shard's clock. Until a reply teaches it better, it shows the
// same as this process's.
type clock struct {
	local func() int64
	ahead atomic.Int64 // µs, of this process's clock
}

// now returns what the shard's clock shows, in µs since 1970.
func (c *clock) now() int64 { return c.local() + c.ahead.Load() }

// learn takes in that the shard's clock showed shard at some moment between
// two of this process's clock. What was believed is changed no further than
// that proves wrong, so that a slow reply spoils nothing. Of two replies at
// once either may win: both are right.
func (c *clock) learn(shard, sent, received int64) {
	known := c.ahead.Load()
	if ahead := min(max(known, shard-received), shard-sent); ahead != known {
		c.ahead.Store(ahead)
	}
}
