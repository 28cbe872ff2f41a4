package envoy

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Hits counts hits for Prometheus, by descriptor and by what became of them. It
// is safe for concurrent use. NewHits makes one.
type Hits struct {
	counts *prometheus.CounterVec

	mu    sync.RWMutex
	known map[string]bool // descriptors that have series of their own
}

// maxDescriptors bounds the descriptors that have series: where a configuration
// asks for values in metrics, requests bring as many as they like.
const maxDescriptors = 2000

// maxDescriptor is the longest of them, in bytes: requests bring values of any
// length, and a series stays.
const maxDescriptor = 256

// otherDescriptors is what all descriptors beyond that are counted as.
const otherDescriptors = "other"

// NewHits returns a counter without hits.
func NewHits() *Hits {
	return &Hits{
		counts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shardlimit_envoy_hits_total",
			Help: "Hits on Envoy's descriptors that have a rule, by what became of them.",
		}, []string{"descriptor", "outcome"}),
		known: map[string]bool{},
	}
}

// Describe implements prometheus.Collector.
func (h *Hits) Describe(to chan<- *prometheus.Desc) { h.counts.Describe(to) }

// Collect implements prometheus.Collector.
func (h *Hits) Collect(to chan<- prometheus.Metric) { h.counts.Collect(to) }

// Count counts what became of a descriptor.
func (h *Hits) Count(hit Hit) {
	outcome := "ok"
	switch {
	case hit.Shadow:
		outcome = "shadowed"
	case hit.Over:
		outcome = "over_limit"
	}
	h.counts.WithLabelValues(h.series(hit.Descriptor), outcome).Add(float64(hit.Hits))
}

// series returns what the descriptor is counted as.
func (h *Hits) series(descriptor string) string {
	if len(descriptor) > maxDescriptor {
		return otherDescriptors
	}
	h.mu.RLock()
	known, full := h.known[descriptor], len(h.known) >= maxDescriptors
	h.mu.RUnlock()
	switch {
	case known:
		return descriptor
	case full:
		return otherDescriptors
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) >= maxDescriptors {
		return otherDescriptors
	}
	h.known[descriptor] = true
	return descriptor
}
