package tally

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
)

// exposure is when what a shard admitted was at risk: its primary was killed at
// the end of it.
type exposure struct {
	shard int
	from  time.Duration
	until atomic.Int64 // ns
}

// exposures are those of a run. The zero value has none.
type exposures struct {
	mu  sync.RWMutex
	all []*exposure // a few at most
}

func (e *exposures) add(shard int, from time.Duration) (gone func(time.Duration)) {
	x := &exposure{shard: shard, from: from}
	x.until.Store(math.MaxInt64)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, x)
	return func(end time.Duration) { x.until.Store(int64(end)) }
}

// cover reports whether a call's charge is at risk. A lease's units are charged
// up to a lease time before they are spent.
func (e *exposures) cover(c *Call) bool {
	sent := c.At.Sent
	if c.Result.Source == shardlimit.FromLease {
		sent -= hotkey.LeaseTime
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, x := range e.all {
		if c.Shard == x.shard && c.At.Replied >= x.from && int64(sent) <= x.until.Load() {
			return true
		}
	}
	return false
}
