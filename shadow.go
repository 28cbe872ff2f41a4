package shardlimit

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// shadow returns r, about the receipt's call, as the policy has it.
func (c *receipt) shadow(r Result) Result {
	return c.policy.shadowed(r, c.call.Cost*c.call.Count) // 0 of a Peek
}

// shadowed returns r, about asked units, as a Shadow policy has it: allowed, and
// Shadowed where it would not have been, or not all of it. Other policies' it
// returns as it is.
func (p *Policy) shadowed(r Result, asked int64) Result {
	if !p.config.Shadow || r.Allowed && r.Granted == asked {
		return r
	}
	r.Allowed, r.Granted, r.Shadowed = true, asked, true
	return r
}

// logShadow writes a line for the first result of the policy that was shadowed.
func (l *Limiter) logShadow(d *Decision) {
	if d.Result.Shadowed && l.shadows.first(d.Policy) {
		l.config.Logger.Info("shardlimit: shadow policy would have denied",
			slog.String("policy", d.Policy), slog.String("limit", d.Result.Limit.String()))
	}
}

// mostShadows is how many policies a line is written for. Names of policies are
// few, but nothing keeps a service from making them up.
const mostShadows = 1000

// shadows are the names of policies that a line was written for.
type shadows struct {
	names sync.Map
	count atomic.Int64
}

// first reports whether the name is seen for the first time, and there is room
// for it.
func (s *shadows) first(name string) bool {
	if _, known := s.names.Load(name); known || s.count.Load() >= mostShadows {
		return false
	}
	_, known := s.names.LoadOrStore(name, nil)
	if !known {
		s.count.Add(1)
	}
	return !known
}
