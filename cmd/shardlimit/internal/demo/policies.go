package demo

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

// timeout is how long a decision may take: more than a service would grant, as
// the demo shares one machine with the whole cluster.
const timeout = 250 * time.Millisecond

// show is a policy of the demo, and how often it's asked under.
type show struct {
	policy *shardlimit.Policy
	leases shardlimit.LeaseMode // the policy's
	weight int
	few    int // subjects that ask, and nobody else; 0: all do
}

// repertoire returns the policies: a few very hot tenants at the edge, most of
// whose decisions are made here; four algorithms, several limits at once, and one
// limit that hardly refills.
func repertoire() []show {
	return []show{
		edge(),
		newShow(50, "api", shardlimit.PerSecond(100).WithBurst(200)),
		newShow(15, "search", shardlimit.PerSecond(20).WithBurst(40).WithAlgorithm(shardlimit.GCRA)),
		newShow(15, "plan", shardlimit.PerSecond(50), shardlimit.PerHour(1000)),
		newShow(10, "login", shardlimit.PerMinute(5).WithAlgorithm(shardlimit.SlidingLog)),
		trial(),
	}
}

// Edge is the policy of the hot tenants.
const Edge = "edge"

func edge() show {
	s := newShow(300, Edge, shardlimit.PerSecond(10_000))
	s.few = 3
	return s
}

// trial lends nothing, so that what it admits is known to the unit.
func trial() show {
	return show{weight: 10, leases: shardlimit.LeaseOff, policy: shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "trial", Limits: []shardlimit.Limit{shardlimit.PerHour(20)}, Leases: shardlimit.LeaseOff, Timeout: timeout,
	})}
}

func newShow(weight int, name string, limits ...shardlimit.Limit) show {
	return show{weight: weight, policy: shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: name, Limits: limits, Timeout: timeout,
	})}
}
