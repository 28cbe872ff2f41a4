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
	weight int
}

// repertoire returns the policies: four algorithms, several limits at once, and
// one limit that refills so slowly that what it admits is known to the unit.
func repertoire() []show {
	return []show{
		newShow(50, "api", shardlimit.PerSecond(100).WithBurst(200)),
		newShow(15, "search", shardlimit.PerSecond(20).WithBurst(40).WithAlgorithm(shardlimit.GCRA)),
		newShow(15, "plan", shardlimit.PerSecond(50), shardlimit.PerHour(1000)),
		newShow(10, "login", shardlimit.PerMinute(5).WithAlgorithm(shardlimit.SlidingLog)),
		newShow(10, "trial", shardlimit.PerHour(20)),
	}
}

func newShow(weight int, name string, limits ...shardlimit.Limit) show {
	return show{weight: weight, policy: shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: name, Limits: limits, Timeout: timeout,
	})}
}
