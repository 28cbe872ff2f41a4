package serve

import (
	"os"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/page"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
	"github.com/shardlimit/shardlimit/metrics"
)

// page returns the operators' page.
func (o *Options) page(limiter *shardlimit.Limiter, record *page.Record) *page.Page {
	name, err := os.Hostname()
	if err != nil {
		name = "" // it only names the page
	}
	return page.New(page.Options{
		Record: record, Inspect: limiter.Inspect, Config: o.File.Now, Status: o.File.Status, Token: o.AdminToken, Name: name,
	})
}

// told returns what tells the metrics and the page of the configuration.
func told(m *metrics.Metrics, record *page.Record) func(reload.Status) {
	return func(s reload.Status) {
		record.Configured(s)
		if s.Fault != "" {
			m.ConfigRefused()
			return
		}
		m.ConfigLoaded(int(s.Generation))
	}
}
