package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardlimit/shardlimit"
)

// kind is what the decisions of one tally have in common.
type kind struct {
	policy   string
	source   shardlimit.Source
	allowed  bool
	shadowed bool // and allowed only for that
}

func kindOf(d *shardlimit.Decision) kind {
	r := &d.Result
	return kind{policy: d.Policy, source: r.Source, allowed: r.Allowed, shadowed: r.Shadowed}
}

// outcome returns the kind's label.
func (k kind) outcome() string {
	switch {
	case k.shadowed:
		return "shadowed"
	case k.allowed:
		return "allowed"
	default:
		return "denied"
	}
}

// called reports whether such decisions take a call to Redis.
func (k kind) called() bool {
	return k.source == shardlimit.FromRedis || k.source == shardlimit.FromFallback
}

// tally holds the series of a kind, so that none is searched for by its labels
// again: that takes longer than a decision made in the process.
type tally struct {
	decisions prometheus.Counter
	units     prometheus.Counter  // nil: none are granted
	took      prometheus.Observer // nil: no call is made
}

func (m *Metrics) newTally(k kind) *tally {
	source := k.source.String()
	t := &tally{decisions: m.decisions.WithLabelValues(k.policy, source, k.outcome())}
	if k.allowed {
		t.units = m.granted.WithLabelValues(k.policy, source)
	}
	if k.called() {
		t.took = m.durations.WithLabelValues(source)
	}
	return t
}

func (t *tally) count(d *shardlimit.Decision) {
	t.decisions.Inc()
	if t.units != nil {
		t.units.Add(float64(d.Result.Granted))
	}
	if t.took != nil {
		t.took.Observe(d.Took.Seconds())
	}
}

// tallies are those of all kinds met so far.
type tallies struct {
	begin func(kind) *tally
	known atomic.Pointer[map[kind]*tally] // replaced, never changed

	mu sync.Mutex // held while known is replaced
}

func newTallies(begin func(kind) *tally) *tallies {
	t := &tallies{begin: begin}
	t.known.Store(&map[kind]*tally{})
	return t
}

// of returns the kind's tally.
func (t *tallies) of(k kind) *tally {
	if known, ok := (*t.known.Load())[k]; ok {
		return known
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := maps.Clone(*t.known.Load())
	if known[k] == nil { // another may have been faster
		known[k] = t.begin(k)
		t.known.Store(&known)
	}
	return known[k]
}
