package drill

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Report is what a run showed.
type Report struct {
	Scenario Scenario `json:"-"`
	Name     string   `json:"scenario"`
	Account  Account  `json:"account"`
	// Broken says which promises were broken that hold on any machine.
	Broken []string `json:"broken"`
	// Missed says what was to be seen of the fault, and wasn't: on a machine that
	// is too busy a breaker may open before a call meets the refusal.
	Missed []string `json:"missed,omitempty"`
	// Replaced are shards that failed over though nothing was done to them, as
	// the machine stood still: all of theirs counts as at risk.
	Replaced int `json:"replaced,omitempty"`

	// Stalled is how long this process, which had calls to make, was not let to:
	// no call is judged fairly that met it.
	Stalled time.Duration `json:"stalled_ns"`

	All    Latency `json:"all"`    // of all calls, from the fault on
	Others Latency `json:"others"` // of shards that weren't hit; none if all were
	Open   Latency `json:"open"`   // of calls made once a breaker was open, that met it
	// Again is how long after the promotion the last call for the shard was
	// made that had no answer from Redis; where there was a promotion.
	Again    time.Duration `json:"again_ns"`
	Promoted bool          `json:"promoted"`
}

// Latency is how long calls took.
type Latency struct {
	Calls int           `json:"calls"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`

	sorted []time.Duration
}

func newLatency(took []time.Duration) Latency {
	slices.Sort(took)
	l := Latency{Calls: len(took), sorted: took}
	if l.Calls == 0 {
		return l
	}
	at := func(share float64) time.Duration { return took[min(int(share*float64(l.Calls)), l.Calls-1)] }
	l.P50, l.P99, l.P999, l.Max = at(.5), at(.99), at(.999), took[l.Calls-1]
	return l
}

// Merge returns the latency of both runs' calls.
func (l Latency) Merge(o Latency) Latency { return newLatency(slices.Concat(l.sorted, o.sorted)) }

// inTime is how late a call may be made that isn't late.
const inTime = 5 * time.Millisecond

// open reports whether the call met an open breaker.
func (c *call) open() bool { return errors.Is(c.result.Failure, shardlimit.ErrBreakerOpen) }

// all returns the calls, once the load is over.
func (l *load) all() iter.Seq[*call] {
	return func(yield func(*call) bool) {
		for _, block := range l.calls {
			for i := range block {
				if !yield(&block[i]) {
					return
				}
			}
		}
	}
}

func (p *play) report(ctx context.Context) (*Report, error) {
	replaced, err := p.fault.reconcile(ctx)
	if err != nil {
		return nil, err
	}
	a, err := p.settle(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Scenario: p.scenario, Name: p.scenario.Name, Account: *a, Replaced: replaced, Stalled: p.fault.load.stalled}
	seen := p.sighted()
	r.Broken, r.Missed = append(p.broken(a), seen.misclassed()...), seen.missed()
	p.time(r)
	return r, nil
}

// time fills in what took how long, from the fault on.
func (p *play) time(r *Report) {
	var all, others, open []time.Duration
	for c := range p.fault.load.all() {
		if c.at.Sent < p.began || c.at.Sent > p.back {
			continue
		}
		all = append(all, c.took())
		hit := c.subject.shard == p.fault.target || p.scenario.everywhere
		if !hit {
			others = append(others, c.took())
		}
		if c.opened && c.open() { // who waited for a refusal to pass may meet it later
			open = append(open, c.took())
		}
		if hit && c.failure() != nil {
			r.Again = max(r.Again, c.at.Sent-p.fault.promoted)
		}
	}
	r.All, r.Others, r.Open = newLatency(all), newLatency(others), newLatency(open)
	r.Promoted = p.fault.promoted != 0 && !p.scenario.everywhere
	if !r.Promoted {
		r.Again = 0
	}
}
