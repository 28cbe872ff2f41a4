package shardlimit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/crowd"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Four processes, leases auto, a key of each algorithm at 1,000/s, demand 3,000/s:
// over 0; under at most 2 % against a store that lends nothing, fed the same
// arrivals. gcra and sliding_log are never leased; they, and all without leases,
// have under 0.
func TestLeasesNeitherExceedNorStarve(t *testing.T) {
	for _, mode := range []shardlimit.LeaseMode{shardlimit.LeaseAuto, shardlimit.LeaseOff} {
		t.Run(mode.String(), func(t *testing.T) {
			const rate, demand = 1000, 3000
			of := algorithms
			if mode == shardlimit.LeaseOff {
				of = leasable
			}
			share := float64(demand) / float64(*crowdProcesses)
			g := gather(t, redistest.Shared(t), *crowdFor, hotKeys(share, mode, each(rate, time.Second, of)...)...)
			g.startAll(*crowdProcesses, nil)
			late := lateness(g.wait())
			for _, a := range g.accounts() {
				lent := mode == shardlimit.LeaseAuto && slices.Contains(leasable, a.Key.Limit.Algorithm)
				judgeCrowd(t, &a, late, lent)
			}
		})
	}
}

// lateness is how long requests were made after they were due, at worst: for so
// long an instance stood still, with what was lent to it.
func lateness(reports []crowd.Report) time.Duration {
	var late time.Duration
	for _, r := range reports {
		late = max(late, r.Late)
	}
	return late
}

// judgeCrowd judges what instances were answered about a key. Between a request
// and its decision the limit may refill or forget a little, so as much is left out
// of what is under.
func judgeCrowd(t *testing.T, a *crowd.Account, late time.Duration, lent bool) {
	t.Helper()
	passed, fresh := a.Passed(), a.Fresh()
	leased := a.ByOutcome[crowd.Leased]
	slack := 1 + int64(float64(a.Key.Limit.Rate)*(late+a.Slowest()).Seconds()/a.Key.Limit.Period.Seconds())
	t.Logf("%s %s: %d asked, %d passed (%d of leases), %d of a store that lends nothing; slack %d; Redis decided %d",
		a.Key.Limit, a.Key.Leases, a.Asked(), passed, leased, fresh, slack, a.ByOutcome[crowd.Admitted]+a.ByOutcome[crowd.Denied])
	if over := a.Over(); over != 0 {
		t.Errorf("%s: over by %d", a.Key.Limit, over)
	}
	if lent {
		slack += fresh / 50
	}
	if fresh-passed > slack {
		t.Errorf("%s: %d passed, want %d and at most %d less", a.Key.Limit, passed, fresh, slack)
	}
	if lent != (leased > 0) {
		t.Errorf("%s: %d passed of leases", a.Key.Limit, leased)
	}
}

// The same at 1,000/s with a burst of 50, and 10 per minute on 10 instances:
// leases stay off, and all is as without.
func TestLeasesStayOffWhereTheyWouldStarve(t *testing.T) {
	for _, tt := range []struct {
		name      string
		processes int
		span      time.Duration
		keys      []crowd.Key
	}{
		{"a small burst", *crowdProcesses, *crowdFor, hotKeys(750, shardlimit.LeaseAuto, shardlimit.PerSecond(1000).WithBurst(50))},
		{"a small limit", 10, time.Second, hotKeys(50, shardlimit.LeaseAuto, each(10, time.Minute, algorithms)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := gather(t, redistest.Shared(t), tt.span, tt.keys...)
			g.startAll(tt.processes, nil)
			late := lateness(g.wait())
			for _, a := range g.accounts() {
				judgeCrowd(t, &a, late, false)
			}
		})
	}
}
