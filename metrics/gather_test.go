package metrics_test

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/metrics"
)

// gather returns what a scrape gets, by name.
func gather(t *testing.T, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// histogram returns the one whose only label has this value; "": that has none.
func histogram(t *testing.T, m *metrics.Metrics, name, label string) *dto.Histogram {
	t.Helper()
	for _, series := range gather(t, m)[name].GetMetric() {
		if labels := series.GetLabel(); label == "" && len(labels) == 0 || len(labels) == 1 && labels[0].GetValue() == label {
			return series.GetHistogram()
		}
	}
	t.Fatalf("no %s of %q", name, label)
	return nil
}

// value returns a counter's, which has no labels.
func value(t *testing.T, m *metrics.Metrics, name string) float64 {
	t.Helper()
	return gather(t, m)[name].GetMetric()[0].GetCounter().GetValue()
}

// away returns a limiter that knows of a shard, which is gone.
func away(t *testing.T) *shardlimit.Limiter {
	t.Helper()
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1}))
	l, err := shardlimit.New(rdb, shardlimit.Config{Logger: slog.New(slog.DiscardHandler)})
	closing.Opened(t, l, err)
	if r := allowN(t, l, policy("api", shardlimit.PerHour(1)), "a", 1); r.Failure == nil {
		t.Fatalf("%+v: want a server that is away", r)
	}
	return l
}
