package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardlimit/shardlimit"
)

// What is read of a Limiter when its metrics are collected: a line each.
var (
	ofLimiter = []reading[shardlimit.Snapshot]{
		{
			describe("shards", "Shards that the limiter knows of."), prometheus.GaugeValue,
			func(s *shardlimit.Snapshot) float64 { return float64(len(s.Shards)) },
		},
		{
			describe("stranded_units_total", "Units that a refused AllowAll could not give back."), prometheus.CounterValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.Counters.Stranded) },
		},
	}
	ofTier = []reading[shardlimit.Snapshot]{ // where there are HotKeys
		{
			describe("hot_keys", "Keys that are hot, so that they may be leased."), prometheus.GaugeValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Entries) },
		},
		{
			describe("local_tier_bytes", "Memory that hot keys and denials take, about."), prometheus.GaugeValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Bytes) },
		},
		{
			describe("leases", "Leases that can be spent."), prometheus.GaugeValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Leases) },
		},
		{
			describe("lease_units", "Units in the leases that can be spent."), prometheus.GaugeValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Held) },
		},
		{
			describe("lease_calls_total", "Calls for leases and their settlement."), prometheus.CounterValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Counts.Asks) },
		},
		{
			describe("lent_units_total", "Units that were lent to this process."), prometheus.CounterValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Counts.Lent) },
		},
		{
			describe("given_back_units_total", "Lent units that were given back unspent."), prometheus.CounterValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Counts.GivenBack) },
		},
		{
			describe("forgotten_units_total", "Lent units that could not be given back."), prometheus.CounterValue,
			func(s *shardlimit.Snapshot) float64 { return float64(s.HotKeys.Counts.Forgotten) },
		},
	}
	ofShard = []reading[shardlimit.ShardState]{
		{
			describe("breaker_open", "Whether the shard's breaker is open, so that no calls go out to it.", "shard"), prometheus.GaugeValue,
			func(s *shardlimit.ShardState) float64 { return truth(s.Open) },
		},
		{
			describe("fallback_in_use", "Whether the policies' failure modes answer some of the shard's calls, or all.", "shard"), prometheus.GaugeValue,
			func(s *shardlimit.ShardState) float64 { return truth(s.Fallback) },
		},
	}
)

// reading is a metric that is read off a T.
type reading[T any] struct {
	desc  *prometheus.Desc
	as    prometheus.ValueType
	value func(*T) float64
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func describeState(to chan<- *prometheus.Desc) {
	for _, r := range slices.Concat(ofLimiter, ofTier) {
		to <- r.desc
	}
	for _, r := range ofShard {
		to <- r.desc
	}
}

func collectState(s shardlimit.Snapshot, to chan<- prometheus.Metric) {
	readings := ofLimiter
	if s.HotKeys != nil {
		readings = slices.Concat(ofLimiter, ofTier)
	}
	for _, r := range readings {
		to <- prometheus.MustNewConstMetric(r.desc, r.as, r.value(&s))
	}
	for i := range s.Shards {
		shard := &s.Shards[i]
		for _, r := range ofShard {
			to <- prometheus.MustNewConstMetric(r.desc, r.as, r.value(shard), cmp.Or(shard.Address, nowhere))
		}
	}
}

// nowhere is the label of the shard that stands for the topology, where none
// can be had.
const nowhere = "none"
