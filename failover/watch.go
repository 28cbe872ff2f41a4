package failover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// startLocked starts the goroutine if there is none.
func (b *Breakers) startLocked() {
	if b.done != nil || b.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan struct{})
	go b.watch(ctx)
}

// tellLocked puts an event down for the goroutine to tell.
func (b *Breakers) tellLocked(e Event) {
	if b.opts.Notify != nil {
		b.events = append(b.events, e)
	}
	b.startLocked()
	select {
	case b.wake <- struct{}{}:
	default: // it is awake
	}
}

// watch does rounds until nothing is left to watch. There is a tick between its
// last round and its end, so that no more than one goroutine starts in each.
func (b *Breakers) watch(ctx context.Context) {
	tick := time.NewTicker(b.opts.ProbeInterval)
	defer tick.Stop()
	b.round(ctx, tick)
	for {
		select {
		case <-b.wake:
			b.notify()
			if b.urgent() {
				b.round(ctx, tick)
			}
		case <-tick.C:
			if b.over() {
				return
			}
			b.round(ctx, tick)
		case <-ctx.Done():
			b.end()
			return
		}
	}
}

// urgent reports whether a breaker opened since the last round.
func (b *Breakers) urgent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}

// over ends the goroutine if nothing is left to watch.
func (b *Breakers) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.look || len(b.events) > 0 {
		return false
	}
	for _, s := range *b.shards.Load() {
		if s.failing.Load() || s.open.Load() {
			return false
		}
	}
	b.endLocked()
	return true
}

// end tells what is left to tell, and ends the goroutine.
func (b *Breakers) end() {
	b.notify()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLocked()
}

func (b *Breakers) endLocked() {
	b.cancel()
	close(b.done)
	b.done = nil
}

// round tells what happened, asks how the shards fare where that is in doubt,
// and takes in what they say. While a probe is slow to end, it goes on reloading
// the topology: what hangs may have got a successor.
func (b *Breakers) round(ctx context.Context, tick *time.Ticker) {
	defer b.notify()
	b.notify()
	defer func() { b.settle(time.Now()) }()
	open, look := b.doubts()
	if len(open) == 0 && !look {
		return
	}
	probed := b.probe(ctx, open)
	for done := false; !done; {
		b.reload(ctx)
		b.notify()
		select {
		case <-probed:
			done = true
		case <-tick.C:
		}
	}
}

// notify tells the events so far.
func (b *Breakers) notify() {
	for {
		b.mu.Lock()
		events := b.events
		b.events = nil
		b.mu.Unlock()
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			b.opts.Notify(e)
		}
	}
}

// doubts returns the shards to probe, and whether to look at the topology.
func (b *Breakers) doubts() (open []string, look bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	look, b.look, b.opened = b.look, false, false
	for _, s := range b.sorted() {
		if s.open.Load() {
			open = append(open, s.name)
		}
	}
	return open, look
}

// probe probes the shards, all at the same time, and closes the breakers of
// those that answer. The channel is closed when all probes have ended.
func (b *Breakers) probe(ctx context.Context, open []string) <-chan struct{} {
	probed := make(chan struct{})
	var all sync.WaitGroup
	for _, name := range open {
		all.Go(func() {
			if b.works(ctx, name) {
				b.answered(name, time.Now())
			}
		})
	}
	go func() {
		all.Wait()
		close(probed)
	}()
	return probed
}

// works reports whether a call to the shard would be answered, be it with an
// error that its caller has to see.
func (b *Breakers) works(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, b.opts.ProbeTimeout)
	defer cancel()
	err := b.cluster.Probe(ctx, name)
	if f, ok := errors.AsType[*Error](err); ok {
		return f.Class != Caller && !f.keptWaiting()
	}
	return err == nil
}

// answered takes in that the shard answered a probe.
func (b *Breakers) answered(name string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := (*b.shards.Load())[name]; s != nil {
		b.closeLocked(s, false, now)
	}
}

// reload takes in who serves slots now.
func (b *Breakers) reload(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(b.opts.ProbeTimeout, b.opts.ProbeInterval))
	defer cancel()
	b.cluster.Reload(ctx)
	topology := b.cluster.Shards()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(topology) > 0 {
		b.topologyLocked(topology, time.Now())
	}
}

func (b *Breakers) closeLocked(s *shard, gone bool, now time.Time) {
	if s.open.Load() {
		b.open.Add(-1)
		b.tellLocked(Event{Kind: Closed, Shard: s.name, Lasted: s.close(b.opts, now), Gone: gone})
	}
}

// topologyLocked forgets the shards that serve no slots any more and gets to
// know the others.
func (b *Breakers) topologyLocked(topology []string, now time.Time) {
	topology = slices.Sorted(slices.Values(topology))
	for _, s := range b.sorted() {
		if _, serves := slices.BinarySearch(topology, s.name); !serves && s.name != "" {
			b.forgetLocked(s, now)
		}
	}
	for _, name := range topology {
		if (*b.shards.Load())[name] == nil {
			b.addLocked(name, now)
		}
	}
	changed := b.topology != nil && !slices.Equal(b.topology, topology)
	b.topology = topology
	if changed {
		b.tellLocked(Event{Kind: TopologyChanged, Shards: slices.Clone(topology)})
	}
}

func (b *Breakers) forgetLocked(s *shard, now time.Time) {
	b.closeLocked(s, true, now)
	if s.failing.Load() {
		b.recoverLocked(s, true, now)
	}
	b.removeLocked(s.name)
}

// settle ends the fallback of the shards that have answered for a window.
func (b *Breakers) settle(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sorted() {
		if s.quiet(b.opts.Window, now) {
			b.recoverLocked(s, false, now)
		}
	}
}

func (b *Breakers) recoverLocked(s *shard, gone bool, now time.Time) {
	calls := s.recover()
	s.breaker = b.opts.breaker() // what it has counted is of another time
	b.tellLocked(Event{Kind: FallbackEnded, Shard: s.name, Lasted: now.Sub(s.began), Gone: gone, Calls: calls})
}
