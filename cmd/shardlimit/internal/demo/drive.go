package demo

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// drive lets the traffic run while the plot takes its course, and reports what
// happens.
func (p *play) drive(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.start = time.Now()
	plot := &plot{play: p, events: make(chan string)}
	var running sync.WaitGroup
	running.Go(func() { p.traffic.Run(ctx, p.stage.Limiter, p.start, p.stage.Shard, p.tally) })
	running.Go(func() {
		defer stop()
		plot.run(ctx)
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
	}()
	p.watch(ctx, plot.events, ended)
	return plot.err
}

// watch reports events and ticks until all has ended.
func (p *play) watch(ctx context.Context, events <-chan string, ended <-chan struct{}) {
	ticks := time.NewTicker(p.Tick)
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
	ctx, cancel := context.WithTimeout(ctx, p.Tick/2)
	defer cancel()
	if err := p.stage.Refresh(ctx); err != nil && ctx.Err() == nil {
		p.reporter.Event(time.Since(p.start), fmt.Sprintf("couldn't look up %v", err))
	}
}

// tick reports what was counted since last, and returns the time.
func (p *play) tick(last time.Time) time.Time {
	now := time.Now()
	counts, calls := p.tally.Take(), p.stage.Calls()
	p.reporter.Tick(Tick{
		At: now.Sub(p.start), Length: now.Sub(last),
		Counts: counts, Calls: calls - p.calls, Cluster: p.stage.Look(), Hottest: p.hottest(),
	})
	for i := range counts.Policies {
		p.sources[i].Add(counts.Policies[i])
	}
	p.calls = calls
	return now
}

func (p *play) hottest() []Subject {
	const most = 10
	leases := p.leases()
	var subjects []Subject
	for _, s := range p.tally.Hottest(most) {
		name, slot := p.traffic.Name(s.Subject)
		subjects = append(subjects, Subject{Subject: s, Name: name, Shard: p.stage.Shard(slot), Lease: leases[name]})
	}
	return subjects
}

// leases returns the leases that are held, by subject.
func (p *play) leases() map[string]Lease {
	sums := map[string]Lease{}
	hot := p.stage.Limiter.Inspect().HotKeys
	if hot == nil {
		return sums
	}
	for _, k := range hot.Hot {
		if k.Lease != nil {
			sum := sums[k.Subject]
			sums[k.Subject] = Lease{sum.Units + k.Lease.Units, sum.Left + k.Lease.Left}
		}
	}
	return sums
}
