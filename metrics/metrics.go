// Package metrics shows Prometheus what a shardlimit.Limiter does.
//
//	m := metrics.New(metrics.Config{})
//	limiter, err := shardlimit.Open(opts, shardlimit.Config{Observer: m.Observer()})
//	…
//	m.Watch(limiter)
//	prometheus.MustRegister(m)
//
// How many series there are depends on the policies and the shards, and never
// on the subjects. docs/metrics.md has the table of all metrics.
package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardlimit/shardlimit"
)

// Config is what Metrics are made with. Its zero value is a good default.
type Config struct {
	// Observer is one of the caller's own, told of everything too.
	Observer shardlimit.Observer
}

// Metrics are those of one Limiter, as a prometheus.Collector. Those of several
// in one process are told apart by a label: register each through
// [prometheus.WrapRegistererWith]. New makes them; the zero Metrics are useless.
// They are safe for concurrent use.
type Metrics struct {
	also    shardlimit.Observer // the caller's own
	limiter atomic.Pointer[shardlimit.Limiter]
	config  configState

	tallies      *tallies
	decisions    *prometheus.CounterVec
	granted      *prometheus.CounterVec
	failures     *prometheus.CounterVec
	unknownUnits *prometheus.CounterVec
	durations    *prometheus.HistogramVec
	batches      prometheus.Histogram
	reloads      prometheus.Counter
	topologies   prometheus.Counter
	breakers     *prometheus.CounterVec
}

// New returns the Metrics of a Limiter that is yet to be made.
func New(cfg Config) *Metrics {
	m := &Metrics{
		also: cfg.Observer,
		decisions: counters("decisions_total",
			"Decisions, by what made them.", "policy", "source", "outcome"),
		granted: counters("granted_units_total",
			"Units granted, by what granted them; those of the fallback were charged nowhere.", "policy", "source"),
		failures: counters("failures_total",
			"Calls that Redis did not decide, by what became of them.", "policy", "class"),
		unknownUnits: counters("unknown_units_total",
			"Units of the calls of class unknown, charged once or not at all.", "policy"),
		breakers: counters("breaker_changes_total",
			"Breakers that opened and that closed.", "state"),
		reloads:    counter("topology_reloads_total", "Occasions to ask who serves what; the Redis client does so at most every 200 ms."),
		topologies: counter("topology_changes_total", "Times that others served the slots than was known."),
		durations:  newDurations(),
		batches:    newBatches(),
	}
	for _, state := range []string{opened, closed} {
		m.breakers.WithLabelValues(state) // so that the first change is an increase
	}
	m.tallies = newTallies(m.newTally)
	return m
}

const namespace = "shardlimit"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

// newDurations returns a histogram of what calls to a shard near by take, and
// slow ones up to a Timeout. Scrapers that know native histograms get those.
func newDurations() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace:                       namespace,
		Name:                            "call_duration_seconds",
		Help:                            "Time that calls to Redis took, by what decided in the end; none: nothing did.",
		Buckets:                         []float64{1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"source"})
}

func newBatches() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace,
		Name:      "batch_calls",
		Help:      "Calls that went out to a shard together.",
		Buckets:   prometheus.ExponentialBuckets(1, 2, 8), // 1 to 128
	})
}

// Observer returns the one to make the Limiter with. It tells the Config's too,
// after the metrics have counted.
func (m *Metrics) Observer() shardlimit.Observer {
	o := m.also
	o.Decided = both(m.decided, o.Decided)
	o.Sending = both(m.sending, o.Sending)
	o.Reloading = m.reloading
	o.BreakerChanged = then(m.breakerChanged, o.BreakerChanged)
	o.TopologyChanged = then(m.topologyChanged, o.TopologyChanged)
	return o
}

// then returns a function that calls first, and second unless that is nil.
func then[A any](first, second func(A)) func(A) {
	if second == nil {
		return first
	}
	return func(a A) {
		first(a)
		second(a)
	}
}

// both is then for functions of two parameters.
func both[A, B any](first, second func(A, B)) func(A, B) {
	if second == nil {
		return first
	}
	return func(a A, b B) {
		first(a, b)
		second(a, b)
	}
}

// Watch makes the Limiter's state, as Inspect tells it, part of what is
// collected, and that of no earlier one any more.
func (m *Metrics) Watch(l *shardlimit.Limiter) { m.limiter.Store(l) }

func (m *Metrics) decided(_ context.Context, d shardlimit.Decision) {
	if failure := failureOf(&d); failure != nil {
		m.failed(&d, failure)
	}
	if d.Err != nil {
		m.durations.WithLabelValues(nothing).Observe(d.Took.Seconds())
		return
	}
	m.tallies.of(kindOf(&d)).count(&d)
}

// nothing is the label of durations after which nothing was decided.
const nothing = "none"

func (m *Metrics) sending(_ string, calls int) { m.batches.Observe(float64(calls)) }

func (m *Metrics) reloading() {
	m.reloads.Inc()
	if m.also.Reloading != nil {
		m.also.Reloading()
	}
}

// The states of a breaker, as labels.
const (
	opened = "open"
	closed = "closed"
)

func (m *Metrics) breakerChanged(c shardlimit.BreakerChange) {
	state := closed
	if c.Open {
		state = opened
	}
	m.breakers.WithLabelValues(state).Inc()
}

func (m *Metrics) topologyChanged([]string) { m.topologies.Inc() }

// collectors returns what counts by itself.
func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.decisions, m.granted, m.failures, m.unknownUnits, m.durations, m.batches, m.reloads, m.topologies, m.breakers, &m.config,
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	describeState(to)
}

// Collect sends the metrics, and asks the Limiter that is watched how it fares.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	if l := m.limiter.Load(); l != nil {
		collectState(l.Inspect(), to)
	}
}
