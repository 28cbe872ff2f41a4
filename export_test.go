package shardlimit

import (
	"context"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/cluster"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/scripts"
)

// SetClock makes l decide at the times that now returns. Nothing but tests of
// this module can reach it.
func (l *Limiter) SetClock(now func() testclock.Time) { l.clock = now }

// Stored returns what is stored of a subject under a policy of one limit, and the
// clock of who has it, µs.
func (l *Limiter) Stored(ctx context.Context, p *Policy, subject string) (rule.State, int64, error) {
	call := l.call(p, scripts.Peek, l.key(p, subject))
	reply, err := l.send(ctx, l.timeout(p), &call)
	return reply.State(0), reply.Now, err
}

// Backend is the one of a Limiter under test.
type Backend struct {
	Run  func(ctx context.Context, call *scripts.Call) (scripts.Reply, error)
	Stop func(deadline time.Time) error
}

// DoUntil is what a Limiter calls.
func (b Backend) DoUntil(ctx context.Context, deadline time.Time, call *scripts.Call) (scripts.Reply, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return b.Run(ctx, call)
}

// DoEach is what a Limiter calls.
func (b Backend) DoEach(ctx context.Context, jobs []cluster.Job) {
	var all sync.WaitGroup
	for i := range jobs {
		all.Go(func() { jobs[i].Reply, jobs[i].Err = b.DoUntil(ctx, jobs[i].Deadline, jobs[i].Call) })
	}
	all.Wait()
}

// CloseBy is what a Limiter calls.
func (b Backend) CloseBy(deadline time.Time) error { return b.Stop(deadline) }

// Through has run make each single call of l's: next sends it. It must come before
// the first.
func (l *Limiter) Through(run func(ctx context.Context, call *scripts.Call, next func() (scripts.Reply, error)) (scripts.Reply, error)) {
	l.backend = through{l.backend, run}
}

type through struct {
	backend
	run func(ctx context.Context, call *scripts.Call, next func() (scripts.Reply, error)) (scripts.Reply, error)
}

// DoUntil is what a Limiter calls.
func (b through) DoUntil(ctx context.Context, deadline time.Time, call *scripts.Call) (scripts.Reply, error) {
	return b.run(ctx, call, func() (scripts.Reply, error) { return b.backend.DoUntil(ctx, deadline, call) })
}

// NewOnBackend returns a Limiter that waits for b as for Redis.
func NewOnBackend(b Backend) *Limiter { return NewObserved(b, Observer{}) }

// NewObserved returns such a Limiter that tells o of its decisions.
func NewObserved(b Backend, o Observer) *Limiter {
	cfg, err := Config{Observer: o}.filled()
	if err != nil {
		panic(err)
	}
	return newLimiter(cfg, b, FromRedis)
}

// NewFlying returns a Limiter on b that has what one on Redis has: flights, and a
// local tier.
func NewFlying(b Backend, cfg Config) (*Limiter, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	l := newLimiter(cfg, b, FromRedis)
	l.breakers, l.flights = cfg.breakers(), l.newFlights()
	l.tier, err = hotkey.NewTier(lender{l}, hotkey.Config(cfg.HotKeys))
	return l, err
}
