package drill

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// call is one call and its answer.
type call struct {
	subject *subject
	due     time.Duration // since the load's start
	at      ledger.Span
	opened  bool // the shard's breaker was known to be open when the call was made
	result  shardlimit.Result
	err     error
}

// took is how long the caller waited.
func (c *call) took() time.Duration { return c.at.Replied - c.at.Sent }

// failure returns why Redis didn't decide; nil if it did.
func (c *call) failure() *shardlimit.UnavailableError {
	down, _ := errors.AsType[*shardlimit.UnavailableError](c.result.Failure)
	return down
}

// load asks limiters in turn, for one subject after the other, at a rate that
// does not depend on the answers.
type load struct {
	rate     int
	limiters []*shardlimit.Limiter
	subjects []subject
	start    time.Time

	calls   [][]call      // in blocks, which stay where they are
	skipped int           // calls not made: they would have been late, or too many were under way
	stalled time.Duration // the latest that it was noticed that a call is due
	under   atomic.Int64
	asking  sync.WaitGroup
	shards  [][]sight // what was seen, by limiter and shard
}

// sight is what was seen of a shard by one limiter.
type sight struct {
	answered atomic.Int64 // when the latest call was sent that Redis decided
	open     atomic.Bool  // the latest answer is that its breaker is open
}

// tooLate is how late a call is not made any more.
const tooLate = 20 * time.Millisecond

// mostUnderWay is how many calls may be under way; more is no load but a pile.
const mostUnderWay = 20_000

func newLoad(rate int, limiters []*shardlimit.Limiter, subjects []subject, shards int) *load {
	l := &load{rate: rate, limiters: limiters, subjects: subjects, start: time.Now()}
	for range limiters {
		l.shards = append(l.shards, make([]sight, shards))
	}
	return l
}

// now is the time since the load's start.
func (l *load) now() time.Duration { return time.Since(l.start) }

// run asks until ctx ends, and returns once the last answer is there.
func (l *load) run(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; {
		for now := l.now(); l.due(n) <= now; n++ {
			l.stalled = max(l.stalled, now-l.due(n))
			if now-l.due(n) > tooLate {
				l.skipped++ // the machine stood still: to catch up would be another load
				continue
			}
			l.make(ctx, n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	l.asking.Wait()
}

// due returns when call n is to be made.
func (l *load) due(n int) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(l.rate)
}

// make makes call n in a goroutine of its own. A call under way is not cut off
// when ctx ends.
func (l *load) make(ctx context.Context, n int) {
	if l.under.Load() >= mostUnderWay {
		l.skipped++
		return
	}
	c := l.add()
	c.subject, c.due = &l.subjects[n%len(l.subjects)], l.due(n)
	// Whoever asks for all subjects in turn must not always ask the same limiter.
	limiter := (n%len(l.subjects) + n/len(l.subjects)) % len(l.limiters)
	l.under.Add(1)
	l.asking.Go(func() {
		l.ask(context.WithoutCancel(ctx), limiter, c)
		l.under.Add(-1)
	})
}

// add returns room for one more call.
func (l *load) add() *call {
	const block = 4096
	last := len(l.calls) - 1
	if last < 0 || len(l.calls[last]) == block {
		l.calls = append(l.calls, make([]call, 0, block))
		last++
	}
	l.calls[last] = append(l.calls[last], call{})
	return &l.calls[last][len(l.calls[last])-1]
}

func (l *load) ask(ctx context.Context, limiter int, c *call) {
	seen := &l.shards[limiter][c.subject.shard]
	c.opened = seen.open.Load()
	c.at.Sent = l.now()
	c.result, c.err = l.limiters[limiter].Allow(ctx, c.subject.policy, c.subject.name)
	c.at.Replied = l.now()
	seen.open.Store(c.open())
	if c.err == nil && c.result.Failure == nil {
		latest(&seen.answered, int64(c.at.Sent-c.age()))
	}
}

// age is how long ago Redis may have said what the call was answered by.
func (c *call) age() time.Duration {
	if c.result.Source == shardlimit.FromRedis {
		return 0
	}
	return max(hotkey.LeaseTime, hotkey.DenialTTL)
}

// latest raises v to t.
func latest(v *atomic.Int64, t int64) {
	for old := v.Load(); old < t; old = v.Load() {
		if v.CompareAndSwap(old, t) {
			return
		}
	}
}

// recovered waits until each limiter has been answered by each shard for a call
// made after since.
func (l *load) recovered(ctx context.Context, since time.Duration) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !l.answeredSince(since) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (l *load) answeredSince(since time.Duration) bool {
	for i := range l.shards {
		for j := range l.shards[i] {
			if l.shards[i][j].answered.Load() <= int64(since) {
				return false
			}
		}
	}
	return true
}
