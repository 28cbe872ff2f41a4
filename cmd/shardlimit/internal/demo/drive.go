package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
)

// drive lets the traffic run while the plot takes its course, and reports what
// happens.
func (p *play) drive(ctx context.Context) (stage.Moved, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.start = time.Now()
	plot := &plot{events: make(chan string)}
	var running sync.WaitGroup
	running.Go(func() { p.traffic.Run(ctx, p.stage.Limiter, p.start, p.stage.Shard, p.tally) })
	running.Go(func() {
		defer stop()
		plot.run(ctx, p)
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
	}()
	p.watch(ctx, plot.events, ended)
	return plot.moved, plot.err
}

// watch reports events and ticks until all has ended.
func (p *play) watch(ctx context.Context, events <-chan string, ended <-chan struct{}) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	last := p.start
	for {
		select {
		case <-ended:
			p.tick(last)
			return
		case text := <-events:
			p.reporter.Event(time.Since(p.start), text)
		case <-ticks.C:
			p.refresh(ctx)
			last = p.tick(last)
		}
	}
}

// refresh looks up who serves what. Where that fails, decisions go on being
// counted for those who served it before.
func (p *play) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tick/2)
	defer cancel()
	if err := p.stage.Refresh(ctx); err != nil && ctx.Err() == nil {
		p.reporter.Event(time.Since(p.start), fmt.Sprintf("couldn't look up %v", err))
	}
}

// tick reports what was counted since last, and returns the time.
func (p *play) tick(last time.Time) time.Time {
	now := time.Now()
	p.reporter.Tick(Tick{At: now.Sub(p.start), Length: now.Sub(last), Counts: p.tally.Take()})
	return now
}

// plot is what happens to the stage while the traffic goes on.
type plot struct {
	events chan string

	// To be read once run has returned.
	moved stage.Moved
	err   error
}

// run turns the cluster upside down at half-time, if it may, and returns when
// the time is up and that is done, or ctx has ended.
func (t *plot) run(ctx context.Context, p *play) {
	timeUp := time.After(p.Duration)
	if p.stage.CanUpheave() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.Duration / 2):
		}
		t.upheave(ctx, p)
	}
	select {
	case <-ctx.Done():
	case <-timeUp:
	}
}

func (t *plot) upheave(ctx context.Context, p *play) {
	tell := func(text string) {
		select {
		case t.events <- text:
		case <-ctx.Done():
		}
	}
	u := stage.Upheaval{Slot: p.traffic.HottestSlot(), Pace: p.Duration / 8, Slots: p.Slots}
	t.moved, t.err = p.stage.Upheave(ctx, u, tell)
	if ctx.Err() != nil { // interrupted on purpose
		t.err = nil
	}
}
