package cluster

import (
	"context"
	"math/rand/v2"
	"time"
)

// wait is how long a refused call is held back before it goes again.
type wait time.Duration

const (
	firstWait = wait(time.Millisecond)
	longest   = wait(16 * time.Millisecond)
)

// next returns the wait after the next refusal.
func (w wait) next() wait { return min(2*w, longest) }

// sleep sleeps between half of w and all of it, so that those who were refused
// together don't come back together. It reports false if ctx ends before that,
// and at once if the deadline comes before.
func (w wait) sleep(ctx context.Context, deadline time.Time) bool {
	pause := time.Duration(w/2 + rand.N(w/2))
	if time.Until(deadline) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
