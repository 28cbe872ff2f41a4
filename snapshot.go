package shardlimit

import (
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/hotkey"
)

// Snapshot is what a Limiter knows of itself at one moment: plain data, also as
// JSON.
type Snapshot struct {
	// Shards are those that the topology names or that calls went to, in the
	// order of their addresses. A local Limiter has none, and another none
	// before its first call.
	Shards []ShardState `json:"shards"`
	// HotKeys is what the Limiter decides by itself: the hottest subjects, and
	// why each is leased or not. nil of a local one, which does nothing else.
	HotKeys  *hotkey.Snapshot `json:"hot_keys,omitempty"`
	Counters Counters         `json:"counters"`
}

// ShardState is how a shard fares.
type ShardState struct {
	Address    string     `json:"address"`       // its primary's; "" stands for the topology, where none can be had
	Open       bool       `json:"open"`          // its breaker: no calls go out
	Since      time.Time  `json:"since"`         // the breaker is so, or is known
	Fallback   bool       `json:"fallback"`      // failure modes answer some of its calls, or all
	Unanswered Unanswered `json:"unanswered"`    // calls, since they began to
	Err        string     `json:"err,omitempty"` // why the latest of them had no answer
}

// Counters count calls since the Limiter was made. Those of bad input are in
// none of them, nor is Peek.
type Counters struct {
	Allowed         int64 `json:"allowed"`
	Denied          int64 `json:"denied"`           // also what passes, of an AllowAll that another of its requests refused
	FallbackAllowed int64 `json:"fallback_allowed"` // by a failure mode, not counted in Allowed
	FallbackDenied  int64 `json:"fallback_denied"`  // likewise
	Errors          int64 `json:"errors"`           // no decision: the caller's context, or a misconfiguration
	Unknown         int64 `json:"unknown"`          // of the fallbacks, those charged perhaps
	Shadowed        int64 `json:"shadowed"`         // of those allowed, those that only Shadow allowed
	Stranded        int64 `json:"stranded"`         // units that a refused AllowAll could not give back
}

// Inspect returns what the Limiter knows of itself. It asks nobody.
func (l *Limiter) Inspect() Snapshot {
	s := Snapshot{Shards: []ShardState{}, Counters: l.counters.read()}
	if l.breakers == nil {
		return s
	}
	hot := l.tier.Inspect()
	s.HotKeys = &hot
	s.Counters.Allowed += hot.Counts.Leased
	s.Counters.Denied += hot.Counts.Denied + hot.Counts.TailDenied
	for _, state := range l.breakers.States() {
		shard := ShardState{
			Address: state.Shard, Open: state.Open, Since: state.Since,
			Fallback: state.Failing, Unanswered: Unanswered(state.Calls),
		}
		if state.Err != nil {
			shard.Err = state.Err.Err.Error()
		}
		s.Shards = append(s.Shards, shard)
	}
	return s
}

// counters are what Counters are read from, together with what the local tier
// counts: its decisions are in none of them, as an addition that all processors
// share would cost more than the decision.
type counters struct {
	allowed, denied, fallbackAllowed, fallbackDenied, errors, unknown, shadowed, stranded atomic.Int64
}

func (c *counters) count(d *Decision) {
	if d.Result.Shadowed {
		c.shadowed.Add(1)
	}
	switch r := &d.Result; {
	case d.Err != nil:
		c.errors.Add(1)
	case r.Source == FromFallback:
		c.fallback(r)
	case r.Source == FromDenial && r.Allowed: // by Shadow, and the tier counts it as denied
		c.allowed.Add(1)
		c.denied.Add(-1)
	case r.Source == FromLease, r.Source == FromDenial:
	case r.Allowed:
		c.allowed.Add(1)
	default:
		c.denied.Add(1)
	}
}

func (c *counters) fallback(r *Result) {
	if r.Allowed {
		c.fallbackAllowed.Add(1)
	} else {
		c.fallbackDenied.Add(1)
	}
	if down, ok := r.Failure.(*UnavailableError); ok && down.Unknown { //nolint:errorlint // as failed made it
		c.unknown.Add(1)
	}
}

func (c *counters) read() Counters {
	return Counters{
		Allowed:         c.allowed.Load(),
		Denied:          c.denied.Load(),
		FallbackAllowed: c.fallbackAllowed.Load(),
		FallbackDenied:  c.fallbackDenied.Load(),
		Errors:          c.errors.Load(),
		Unknown:         c.unknown.Load(),
		Shadowed:        c.shadowed.Load(),
		Stranded:        c.stranded.Load(),
	}
}
