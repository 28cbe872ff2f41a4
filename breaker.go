package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/failover"
)

// BreakerConfig says when a Limiter stops asking a shard that doesn't answer,
// so that calls needn't wait for their Timeout: the policies' failure modes
// answer at once then, for the subjects of that shard alone. In the background
// the shard is probed and the topology reloaded until calls can go out again.
//
// Calls that got no answer in time count against the shard, and those of which
// nothing is known. A shard that says at once that it can't (it is out of
// memory, or lacks replicas), an error of the set-up and a caller who gave up
// don't. The zero value is a good default.
type BreakerConfig struct {
	// FailureRatio is the share of a shard's calls, above 0 and up to 1, that
	// must fail for its breaker to open; 0 means 0.5. Calls count from the
	// first that fails.
	FailureRatio float64
	// MinCalls is how many calls it takes to judge, so that a shard with fewer
	// in a Window is always asked; 0 means 20.
	MinCalls int
	// Window is how long a call counts, at least 10 ms; 0 means 1 s.
	Window time.Duration
	// ProbeInterval is how often the shards whose breaker is open are probed
	// and the topology is reloaded, at least 1 ms; 0 means 100 ms.
	ProbeInterval time.Duration
	// Disabled keeps all breakers closed.
	Disabled bool
}

// ErrBreakerOpen is the cause of an [UnavailableError] where the call wasn't
// sent, as the shard's breaker is open.
var ErrBreakerOpen = failover.ErrOpen

// faults returns what is wrong with b.
func (b *BreakerConfig) faults() []error {
	var faults []error
	check := func(ok bool, field string, value any, reason string) {
		if !ok {
			faults = append(faults, &ConfigError{Field: "Breaker." + field, Value: value, Reason: reason})
		}
	}
	check(b.FailureRatio >= 0 && b.FailureRatio <= 1, "FailureRatio", b.FailureRatio, "must be between 0 and 1")
	check(b.MinCalls >= 0, "MinCalls", b.MinCalls, "must not be negative")
	check(b.Window == 0 || b.Window >= 10*time.Millisecond, "Window", b.Window, "must be at least 10ms")
	check(b.ProbeInterval == 0 || b.ProbeInterval >= time.Millisecond, "ProbeInterval", b.ProbeInterval, "must be at least 1ms")
	return faults
}

// breakers returns breakers as c has them.
func (c *Config) breakers() *failover.Breakers {
	return failover.NewBreakers(failover.Options{
		FailureRatio:  c.Breaker.FailureRatio,
		MinCalls:      c.Breaker.MinCalls,
		Window:        c.Breaker.Window,
		ProbeInterval: c.Breaker.ProbeInterval,
		ProbeTimeout:  c.Timeout,
		NeverOpen:     c.Breaker.Disabled,
		Notify:        c.observe,
	})
}
