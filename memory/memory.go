// Package memory keeps limits in this process: the reference that the Lua
// scripts are held against, the store of a limiter without Redis, and the
// fallback while Redis is away.
package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// Store answers the calls that the scripts answer, by the same rules. It is
// safe for concurrent use. Entries that nothing depends on any more are dropped
// as new ones come.
type Store struct {
	seed   maphash.Seed
	clock  func() int64 // µs since 1970, steady
	shards [64]shard
}

// ErrFull says that a bounded store has no room for what a call would add.
var ErrFull = errors.New("the store is full")

// NewBounded returns an empty store of about bound entries at most, where eight
// members of a sliding_log count as one. Once that many are held, calls that
// would add to them fail with ErrFull until some have ended: to drop one that
// counts would grant its units again.
func NewBounded(bound int) *Store {
	s := New()
	for i := range s.shards {
		s.shards[i].bound = max(bound/len(s.shards), 1)
	}
	return s
}

// New returns an empty store without a bound.
func New() *Store {
	started := time.Now() // its monotonic reading makes the clock steady
	s := &Store{
		seed:  maphash.MakeSeed(),
		clock: func() int64 { return started.Add(time.Since(started)).UnixMicro() },
	}
	for i := range s.shards {
		s.shards[i].entries = make(map[entryKey]*entry)
	}
	return s
}

// Do runs one call. Its error is the context's own, or ErrFull: then nothing was
// charged.
func (s *Store) Do(ctx context.Context, c *scripts.Call) (scripts.Reply, error) {
	if err := ctx.Err(); err != nil {
		return scripts.Reply{}, err
	}
	sh := &s.shards[maphash.String(s.seed, c.Key)%uint64(len(s.shards))]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// Within the mutex, so that no call decides at a time before that of a call
	// that went first: it could miss an entry that was still to count for it.
	now, fixed := s.now(c)
	key := entryKey{name: c.Key}
	if c.Plan.Windowed() {
		key.window = c.InWindow(now)
	}
	return sh.do(c, key, now, fixed)
}

// Close forgets everything.
func (s *Store) Close() error {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		clear(sh.entries)
		sh.size = 0
		sh.mu.Unlock()
	}
	return nil
}

// Len returns the number of entries held.
func (s *Store) Len() int {
	n := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += len(sh.entries)
		sh.mu.Unlock()
	}
	return n
}

// now returns the µs at which c is decided, and whether a test fixed them:
// then nothing ends by itself.
func (s *Store) now(c *scripts.Call) (now int64, fixed bool) {
	if micros, ok := c.Clock.Micros(); ok {
		return micros, true
	}
	return s.clock(), false
}

// entryKey names an entry: a windowed plan has one for each window.
type entryKey struct {
	name   string
	window int64
}

// entry is what one key holds.
type entry struct {
	states []rule.State
	log    entryLog // of a sliding_log

	reset   int64   // µs of the last reset; receipts from before it give nothing
	keep    float64 // µs until which that must be known; 0: there was no reset
	expires float64 // µs from which the entry is as good as missing
}

// shard is a part of the entries, under a mutex of its own.
type shard struct {
	mu      sync.Mutex
	entries map[entryKey]*entry
	size    int // of all entries
	bound   int // of size; 0: none
}

func (sh *shard) do(c *scripts.Call, key entryKey, now int64, fixed bool) (scripts.Reply, error) {
	e := sh.entries[key]
	if e != nil && !fixed && float64(now) >= e.expires {
		sh.drop(key, e)
		e = nil
	}
	if sh.full(c, e, now, fixed) {
		return scripts.Reply{}, ErrFull
	}
	found := e != nil
	if !found {
		e = blank(c.Plan, key)
	}
	before := e.size()
	reply, end := e.do(c, now, found)
	if found {
		sh.size += e.size() - before
	}
	switch end {
	case unchanged:
	case written:
		e.settle(c.Plan, now)
		if !found {
			sh.entries[key] = e
			sh.size += e.size()
			sh.sweep(now, fixed)
		}
	case gone:
		sh.drop(key, e)
	}
	return reply, nil
}

// full reports whether there is no room for what c may add to e, nil where that
// is missing. It makes room where it meets entries that have ended.
func (sh *shard) full(c *scripts.Call, e *entry, now int64, fixed bool) bool {
	adds := c.Op == scripts.Take || c.Op == scripts.Charge
	if sh.bound == 0 || !adds || e != nil && e.log == nil {
		return false
	}
	if sh.size >= sh.bound {
		sh.sweep(now, fixed)
	}
	return sh.size >= sh.bound
}

// drop takes out the entry of a key, if it is held.
func (sh *shard) drop(key entryKey, e *entry) {
	if sh.entries[key] == e {
		sh.size -= e.size()
		delete(sh.entries, key)
	}
}

// size is what the entry counts against a store's bound.
func (e *entry) size() int { return 1 + len(e.log)/8 }

// sweep drops those that have ended of a few entries met by chance. It runs once
// for each new one: where a quarter of the entries have ended, it drops as many
// as come, so that the ended never pile up.
func (sh *shard) sweep(now int64, fixed bool) {
	if fixed {
		return
	}
	tries := 4
	for key, e := range sh.entries {
		if float64(now) >= e.expires {
			sh.drop(key, e)
		}
		if tries--; tries == 0 {
			return
		}
	}
}

func blank(p *scripts.Plan, key entryKey) *entry {
	e := &entry{states: make([]rule.State, len(p.Limits()))}
	if p.Windowed() {
		e.states[0].At = float64(key.window)
	}
	return e
}

// settle forgets a reset that no receipt can reach any more, and sets when the
// entry ends.
func (e *entry) settle(p *scripts.Plan, now int64) {
	e.expires = 0
	for i, l := range p.Limits() {
		e.expires = max(e.expires, l.Ends(e.states[i], now))
	}
	if e.keep <= float64(now) && !p.Windowed() {
		e.reset, e.keep = 0, 0
	}
	e.expires = math.Ceil(max(e.expires, e.keep))
}
