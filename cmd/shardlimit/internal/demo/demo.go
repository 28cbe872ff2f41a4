// Package demo shows the limiter at work: traffic on a cluster that is turned
// upside down meanwhile, and a ledger of whether all that was promised held.
package demo

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/traffic"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// Options says what to play.
type Options struct {
	Stage    stage.Options
	Duration time.Duration // of the traffic
	Workers  int
	Subjects int
	Seed     uint64
	Slots    int           // moved halfway, where the cluster is the demo's own
	Tick     time.Duration // between two reports; 0: 1 s

	// Actions is what someone who watches asks for, one after the other; nil:
	// nobody does. The first one takes the place of what happens halfway.
	Actions <-chan Action
}

// Run plays the demo and reports whether every promise was kept. Where ctx ends
// early, so does the demo, with its ledger.
func Run(ctx context.Context, o Options, r Reporter) (kept bool, err error) {
	o.Tick = cmp.Or(o.Tick, time.Second)
	r.Opening(o.Stage.Plan())
	start := time.Now()
	s, err := stage.Open(ctx, o.Stage)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	p := newPlay(o, s, r)
	r.Scene(p.scene(time.Since(start)))
	return p.run(ctx)
}

// play is one run on a stage.
type play struct {
	Options
	stage    *stage.Stage
	reporter Reporter
	traffic  traffic.Traffic
	terms    []ledger.Terms // of each policy
	tally    *tally.Tally
	sources  []tally.Sources // of each policy, up to the latest tick
	calls    int64           // to Redis, up to then
	start    time.Time
}

func newPlay(o Options, s *stage.Stage, r Reporter) *play {
	t := traffic.Traffic{Workers: o.Workers, Seed: o.Seed}.WithSubjects(o.Subjects)
	var terms []ledger.Terms
	for _, show := range repertoire() {
		t.Policies = append(t.Policies, show.policy)
		t.Weights = append(t.Weights, show.weight)
		t.Few = append(t.Few, min(show.few, o.Subjects))
		if !s.Lends() {
			show.leases = shardlimit.LeaseOff
		}
		terms = append(terms, ledger.Terms{Limits: show.policy.Limits(), Leases: show.leases})
	}
	return &play{
		Options: o, stage: s, reporter: r, traffic: t, terms: terms, sources: make([]tally.Sources, len(terms)),
		tally: tally.New(o.Workers, s.Shards(), o.Subjects, terms),
	}
}

func (p *play) scene(openedIn time.Duration) Scene {
	return Scene{
		Where: p.stage.Title, Note: p.stage.Note, OpenedIn: openedIn, Shards: p.stage.Shards(),
		Policies: len(p.traffic.Policies), Subjects: p.Subjects, Workers: p.Workers, Seed: p.Seed, Duration: p.Duration,
		Lends: p.stage.Lends(), CanMove: p.stage.CanUpheave(), CanKill: p.stage.CanKill(),
	}
}

func (p *play) run(ctx context.Context) (kept bool, err error) {
	// What is asked after the traffic must be answered also when ctx has ended.
	after := context.WithoutCancel(ctx)
	before, err := p.stage.ErrorReplies(after)
	if err != nil {
		return false, err
	}
	if err := p.drive(ctx); err != nil {
		return false, err
	}
	end := End{
		Elapsed: time.Since(p.start), Ledger: p.judge(), Sources: p.sources, Calls: p.calls, Done: p.stage.Done(),
	}
	if hot := p.stage.Limiter.Inspect().HotKeys; hot != nil {
		end.Tier = &hot.Counts
		end.Ledger.Forget(hot.Counts.Forgotten)
	}
	_, end.FirstError = p.tally.Errors()
	if end.Replies, err = p.stage.ErrorReplies(after); err != nil {
		return false, err
	}
	subtract(end.Replies, before)
	p.reporter.End(end)
	return end.Ledger.Kept(), nil
}

// judge opens the ledger, once the traffic has ended.
func (p *play) judge() ledger.Ledger {
	var l ledger.Ledger
	for i, policy := range p.traffic.Policies {
		l.Enter(policy.Name(), p.terms[i], p.tally.Accounts(i))
	}
	l.Errors, _ = p.tally.Errors()
	return l
}

// subtract takes counts of before from those of now, and drops what isn't above
// zero: a node that was killed no longer tells its own.
func subtract(now, before map[string]int64) {
	for name, n := range before {
		now[name] -= n
	}
	maps.DeleteFunc(now, func(_ string, n int64) bool { return n <= 0 })
}
