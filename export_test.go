package shardlimit

import "github.com/shardlimit/shardlimit/internal/testclock"

// SetClock makes l decide at the times that now returns. Nothing but tests of
// this module can reach it.
func (l *Limiter) SetClock(now func() testclock.Time) { l.clock = now }
