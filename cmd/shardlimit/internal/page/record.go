package page

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

// Record is what the page knows of a daemon's past: what was decided and sent in
// the last two minutes, and the latest changes. What it takes is bounded by the
// policies and shards. It is safe for concurrent use. NewRecord makes one; the
// zero Record is useless.
type Record struct {
	traffic *traffic
	journal journal
}

// NewRecord returns a Record that begins now.
func NewRecord() *Record { return &Record{traffic: newTraffic(time.Now())} }

// Observer returns what tells the Record of a Limiter.
func (r *Record) Observer() shardlimit.Observer {
	return shardlimit.Observer{
		Decided:         func(_ context.Context, d shardlimit.Decision) { r.traffic.decided(&d) },
		Sending:         r.traffic.sent,
		BreakerChanged:  r.journal.breakerChanged,
		FallbackChanged: r.journal.fallbackChanged,
		TopologyChanged: func(shards []string) {
			r.journal.topologyChanged(shards)
			r.traffic.keep(set(shards))
		},
		Misconfigured: r.journal.misconfigured,
	}
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// Configured notes that a configuration was taken, or refused.
func (r *Record) Configured(s reload.Status) { r.journal.configured(s) }

// Run tells one second from the next, until ctx ends.
func (r *Record) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.traffic.tick(time.Now())
		}
	}
}
