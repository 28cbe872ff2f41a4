package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy"
	"github.com/shardlimit/shardlimit/metrics"
)

// scraped returns the handler of /metrics: those of the limiter, of what Envoy
// asked, and of the process.
func scraped(m *metrics.Metrics, hits *envoy.Hits) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, hits, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
