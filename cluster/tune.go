package cluster

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Tune returns a copy of opts made fit for decisions: what isn't set gets a
// value for calls that take a few milliseconds and must not wait for a node
// that is gone.
//
// Some things are not the caller's choice: deadlines bind sockets, redirects
// are followed, calls go to primaries alone, and no COMMAND is asked for.
func Tune(opts *redis.ClusterOptions) *redis.ClusterOptions {
	t := *opts
	t.Addrs = slices.Clone(opts.Addrs)

	t.ContextTimeoutEnabled = true
	t.MaxRedirects = max(t.MaxRedirects, 3)
	t.ReadOnly, t.RouteByLatency, t.RouteRandomly = false, false, false
	t.DisableRoutingPolicies = true

	fill(&t.MaxRetries, -1)
	fill(&t.MinRetryBackoff, 2*time.Millisecond)
	fill(&t.MaxRetryBackoff, 50*time.Millisecond)
	fill(&t.DialTimeout, 500*time.Millisecond)
	fill(&t.DialerRetries, 1)
	fill(&t.ReadTimeout, time.Second) // a ceiling: contexts set the deadline
	fill(&t.WriteTimeout, time.Second)
	fill(&t.PoolTimeout, 100*time.Millisecond)
	fill(&t.PoolSize, 64)
	fill(&t.ClusterStateReloadInterval, 10*time.Second)
	if t.MaintNotificationsConfig == nil {
		t.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	return &t
}

// fill sets *field to value if it isn't set.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
