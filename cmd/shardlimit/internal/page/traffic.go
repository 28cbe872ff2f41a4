package page

import (
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
)

const (
	noSource = shardlimit.Source(0)           // of calls that came to no decision
	sources  = int(shardlimit.FromDenial) + 1 // that is one of them
)

// traffic counts decisions and calls, and knows how many there were in each of
// the last seconds. It is safe for concurrent use. newTraffic makes one; the zero
// traffic is useless.
type traffic struct {
	bySource [sources]counter
	byPolicy sync.Map // its name → *counter
	byShard  sync.Map // its address → *counter

	mu    sync.Mutex
	start time.Time
	last  time.Time // tick
	past  past
}

// past is the last seconds of all that traffic counts.
type past struct {
	sources  [sources]series
	policies map[string]*series
	shards   map[string]*series
}

func newTraffic(now time.Time) *traffic {
	return &traffic{start: now, last: now, past: past{policies: map[string]*series{}, shards: map[string]*series{}}}
}

// decided counts a decision.
func (t *traffic) decided(d *shardlimit.Decision) {
	for _, c := range []*counter{&t.bySource[d.Result.Source], named(&t.byPolicy, d.Policy)} {
		switch r := &d.Result; {
		case r.Shadowed:
			c.shadowed.Add(1)
		case r.Allowed:
			c.allowed.Add(1)
		default:
			c.denied.Add(1)
		}
	}
}

// sent counts calls to a shard.
func (t *traffic) sent(shard string, calls int) { named(&t.byShard, shard).allowed.Add(int64(calls)) }

// named returns the counter of this name.
func named(counters *sync.Map, name string) *counter {
	c, known := counters.Load(name)
	if !known {
		c, _ = counters.LoadOrStore(name, new(counter))
	}
	return c.(*counter)
}

// tick ends a second.
func (t *traffic) tick(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := now.Sub(t.last)
	t.last = now
	for i := range t.bySource {
		t.past.sources[i].tick(t.bySource[i].read(), took)
	}
	tickEach(&t.byPolicy, t.past.policies, took)
	tickEach(&t.byShard, t.past.shards, took)
}

func tickEach(counters *sync.Map, past map[string]*series, took time.Duration) {
	counters.Range(func(name, c any) bool {
		s := past[name.(string)]
		if s == nil {
			s = new(series)
			past[name.(string)] = s
		}
		s.tick(c.(*counter).read(), took)
		return true
	})
}

// keep forgets all shards but these: in time, nodes of many addresses come and
// go.
func (t *traffic) keep(shards map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard := range t.past.shards {
		if !shards[shard] {
			delete(t.past.shards, shard)
			t.byShard.Delete(shard)
		}
	}
}

// read calls f with the past, which f may not keep.
func (t *traffic) read(f func(*past)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.past)
}
