package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// configState is what is known of a program's configuration. Its metrics are
// there once there is something to say, so that those who have none don't see
// them.
type configState struct {
	mu         sync.Mutex
	known      bool
	generation int
	refused    bool
}

var (
	generationDesc = describe("config_generation", "Number of the configuration in use; the first is 1.")
	successfulDesc = describe("config_last_reload_successful", "Whether the configuration as it was last read is in use.")
)

// ConfigLoaded says that a configuration is in use from now on, and its number;
// the first is 1. It's for programs that have one; others need not call it.
func (m *Metrics) ConfigLoaded(generation int) {
	m.config.mu.Lock()
	defer m.config.mu.Unlock()
	m.config.known, m.config.generation, m.config.refused = true, generation, false
}

// ConfigRefused says that a configuration could not be read, so that the one
// before stays in use.
func (m *Metrics) ConfigRefused() {
	m.config.mu.Lock()
	defer m.config.mu.Unlock()
	m.config.known, m.config.refused = true, true
}

// Describe sends the descriptions.
func (*configState) Describe(to chan<- *prometheus.Desc) {
	to <- generationDesc
	to <- successfulDesc
}

// Collect sends the metrics, if there is a configuration.
func (c *configState) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return
	}
	to <- prometheus.MustNewConstMetric(generationDesc, prometheus.GaugeValue, float64(c.generation))
	to <- prometheus.MustNewConstMetric(successfulDesc, prometheus.GaugeValue, truth(!c.refused))
}
