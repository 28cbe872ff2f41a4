package failover

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrOpen is the cause of an Error where the shard's breaker is open, so that
// the call wasn't sent.
var ErrOpen = errors.New("breaker open")

// Options says when breakers open and how they close. Zero values are good
// defaults.
type Options struct {
	// FailureRatio is the share of calls that must get no answer for a breaker
	// to open; 0 means 0.5.
	FailureRatio float64
	// MinCalls is how many calls it takes to judge; 0 means 20.
	MinCalls int
	// Window is how long a call counts; 0 means 1 s.
	Window time.Duration
	// ProbeInterval is how often a shard is probed while its breaker is open,
	// and the topology is asked for; 0 means 100 ms.
	ProbeInterval time.Duration
	// ProbeTimeout is the longest that a probe waits; 0 means 50 ms. A shard
	// that takes longer is of no use yet.
	ProbeTimeout time.Duration
	// NeverOpen leaves the breakers closed, whatever happens.
	NeverOpen bool
	// Notify is told of each change, one at a time and in order. It must not
	// call Close. nil: nobody is told.
	Notify func(Event)
}

func (o Options) filled() Options {
	o.FailureRatio = cmp.Or(o.FailureRatio, 0.5)
	o.MinCalls = cmp.Or(o.MinCalls, 20)
	o.Window = cmp.Or(o.Window, time.Second)
	o.ProbeInterval = cmp.Or(o.ProbeInterval, 100*time.Millisecond)
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, 50*time.Millisecond)
	return o
}

// Cluster is what Breakers watch.
type Cluster interface {
	// Reload asks who serves what now.
	Reload(ctx context.Context)
	// Shards returns the primaries that serve slots, as Reload last learnt.
	Shards() []string
	// Probe returns nil or a *Error: whether a call to the shard would work.
	Probe(ctx context.Context, shard string) error
}

// Breakers have a breaker for each shard. It opens once FailureRatio of at
// least MinCalls calls within Window got no answer in time: then no more calls
// go to that shard. Nothing is counted of a shard all of whose calls were
// answered for a window, so that its share of failures is that since the first.
//
// While a breaker is open, one goroutine for all of them reloads the topology
// and probes the shard, at once and every ProbeInterval. A probe that is
// answered closes the breaker; a shard that serves no slots any more is
// forgotten, and so a slot that got a new owner starts closed. The goroutine
// also ends fallbacks and tells of changes. It lives as long as there is
// something to watch, and a ProbeInterval longer.
//
// The methods are safe for concurrent use. Without a change Open and
// Report take a few nanoseconds; neither allocates nor waits for I/O.
type Breakers struct {
	opts    Options
	cluster Cluster
	shards  atomic.Pointer[map[string]*shard] // copied on write
	open    atomic.Int32                      // how many are
	wake    chan struct{}                     // something happened that can't wait for the next tick

	// Guarded by mu, as is what the shards hold, and writing shards.
	mu       sync.Mutex
	topology []string // as last learnt, sorted; nil before
	look     bool     // the topology may have changed since the last round
	opened   bool     // a breaker has
	events   []Event  // untold
	closed   bool
	cancel   context.CancelFunc // ends the goroutine
	done     chan struct{}      // closed when it has ended; nil: there is none
}

// NewBreakers returns Breakers that watch nothing yet.
func NewBreakers(o Options) *Breakers {
	b := &Breakers{opts: o.filled(), wake: make(chan struct{}, 1)}
	b.shards.Store(&map[string]*shard{})
	return b
}

// Watch says what to watch. It comes before everything else.
func (b *Breakers) Watch(c Cluster) { b.cluster = c }

// Open reports whether the shard's breaker is open. The call on whose
// behalf it is asked isn't to be sent then, and counts as one that met it open.
func (b *Breakers) Open(name string) bool {
	if b.open.Load() == 0 {
		return false
	}
	s := (*b.shards.Load())[name]
	if s == nil || !s.open.Load() {
		return false
	}
	s.refused.Add(1)
	return true
}

// Report takes in how a call to the shard that has this name ended; err is nil
// if it was answered. It counts as often as callers waited for it. What the caller
// ended counts for nobody.
func (b *Breakers) Report(name string, callers int64, err *Error) {
	s := (*b.shards.Load())[name]
	if s != nil && err == nil && !s.failing.Load() {
		return
	}
	if err != nil && err.Class == Caller {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if s = b.seenLocked(name, err, now); s == nil {
		return
	}
	switch {
	case err == nil:
		b.answeredLocked(s, callers)
	case err.Class == Configuration:
		b.misconfiguredLocked(s, err)
	default:
		b.unansweredLocked(s, callers, err, now)
	}
}

// seenLocked returns the shard. One that isn't known makes the goroutine look
// at the topology. If that doesn't name it, only a call that was answered
// speaks for it: those that were under way to a shard when it went may still
// fail.
func (b *Breakers) seenLocked(name string, err *Error, now time.Time) *shard {
	if s := (*b.shards.Load())[name]; s != nil {
		return s
	}
	if name != "" {
		b.look = true
		b.startLocked()
		if err != nil && b.topology != nil {
			return nil
		}
	}
	return b.addLocked(name, now)
}

func (b *Breakers) addLocked(name string, now time.Time) *shard {
	s := newShard(name, b.opts, now)
	shards := maps.Clone(*b.shards.Load())
	shards[name] = s
	b.shards.Store(&shards)
	return s
}

func (b *Breakers) removeLocked(name string) {
	shards := maps.Clone(*b.shards.Load())
	delete(shards, name)
	b.shards.Store(&shards)
}

// answeredLocked counts a call for a shard that fails. What was under way when
// the breaker opened decides nothing: a probe does.
func (b *Breakers) answeredLocked(s *shard, callers int64) {
	if s.failing.Load() && !s.open.Load() {
		s.record(callers, nil)
	}
}

func (b *Breakers) misconfiguredLocked(s *shard, err *Error) {
	if code := err.code(); !s.faults[code] {
		s.faults[code] = true
		b.tellLocked(Event{Kind: Misconfigured, Shard: s.name, Err: err})
	}
}

func (b *Breakers) unansweredLocked(s *shard, callers int64, err *Error, now time.Time) {
	if s.fail(callers, err, now) {
		b.tellLocked(Event{Kind: FallbackBegan, Shard: s.name, Err: err})
	}
	b.startLocked()
	if b.opts.NeverOpen || s.open.Load() || !s.tripped() {
		return
	}
	s.trip(now)
	b.open.Add(1)
	b.opened = true
	b.tellLocked(Event{Kind: Opened, Shard: s.name, Err: err})
}

// sorted returns the shards in the order of their names.
func (b *Breakers) sorted() []*shard {
	return slices.SortedFunc(maps.Values(*b.shards.Load()), func(a, b *shard) int { return cmp.Compare(a.name, b.name) })
}

// State is how a shard fares.
type State struct {
	Shard   string
	Open    bool      // its breaker
	Since   time.Time // the breaker is so
	Failing bool      // calls got no answer less than a window ago
	Calls   Unanswered
	Err     *Error // why the latest of them didn't; nil unless Failing
}

// States returns how the shards fare that calls went to or that the topology
// names, in the order of their names.
func (b *Breakers) States() []State {
	b.mu.Lock()
	defer b.mu.Unlock()
	var states []State
	for _, s := range b.sorted() {
		state := State{Shard: s.name, Open: s.open.Load(), Since: s.since}
		if s.failing.Load() {
			state.Failing, state.Calls, state.Err = true, s.unanswered(), s.cause
		}
		states = append(states, state)
	}
	return states
}

// Close ends the goroutine and waits for it, until ctx ends.
func (b *Breakers) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	cancel, done := b.cancel, b.done
	b.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
