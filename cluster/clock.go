package cluster

import (
	"sync/atomic"
	"time"
)

// origin is a moment by this process's clock, as it goes on from there: it
// never jumps. Each shard's clock has its own distance from it, which the
// shard's replies teach.
type origin struct {
	start  time.Time // with the monotonic clock's reading
	micros int64     // µs since 1970 at start, as this process believes
}

func newOrigin() *origin {
	start := time.Now()
	return &origin{start: start, micros: start.UnixMicro()}
}

// now returns µs since 1970 by this process's clock.
func (o *origin) now() int64 {
	return o.micros + time.Since(o.start).Microseconds()
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
