package shardlimit

import "log/slog"

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
	if !d.Result.Shadowed {
		return
	}
	if _, known := l.shadows.LoadOrStore(d.Policy, nil); !known {
		l.config.Logger.Info("shardlimit: shadow policy would have denied",
			slog.String("policy", d.Policy), slog.String("limit", d.Result.Limit.String()))
	}
}
