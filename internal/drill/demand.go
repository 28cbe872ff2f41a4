package drill

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/ledger"
	"github.com/shardlimit/shardlimit/keys"
)

// long is a period in which nothing comes back while a drill lasts.
const long = 366 * 24 * time.Hour

// What a policy of the drill is for.
const (
	counted   = 10_000 // units that no subject reaches: each admission is a charge to be found at the end
	exhausted = 20     // units that each subject wants more of
	plenty    = 1e9    // counted, and at a rate at which units are lent
)

// spacious returns a period in which plenty is a rate that leaves enough to lend,
// and whose window neither began nor ends within an hour of now.
func spacious(now time.Time) time.Duration {
	for period := 20 * time.Hour; ; period += time.Minute {
		into := time.Duration(now.UnixMicro()) * time.Microsecond % period
		if into > time.Hour && period-into > time.Hour {
			return period
		}
	}
}

// demand is who asks, each subject under one policy.
type demand struct {
	policies []*shardlimit.Policy
	subjects []subject
}

type subject struct {
	name   string
	policy *shardlimit.Policy
	leases shardlimit.LeaseMode // of the policy
	slot   int
	shard  int
}

// terms is what the subject's account is held against.
func (s *subject) terms() ledger.Terms {
	return ledger.Terms{Limits: s.policy.Limits(), Leases: s.leases}
}

// counts reports whether the subject's charges can be counted at the end.
func (s *subject) counts() bool { return s.limit() == counted || s.limit() == plenty }

// limit is the units that the subject may have, or has more of each period.
func (s *subject) limit() int64 { return s.policy.Limits()[0].Rate }

// open reports whether the subject's policy fails open.
func (s *subject) open() bool { return s.policy.Name()[0] == 'o' }

// newDemand returns n subjects, evenly under policies of all algorithms: some to
// count by, some whose limit is reached, one that refills, one of two limits.
// Every other policy fails open.
func newDemand(n int, owners *[keys.Slots]int, leases shardlimit.LeaseMode) *demand {
	d := &demand{}
	kinds := unlent()
	if leases == shardlimit.LeaseAuto {
		kinds = lent(time.Now())
	}
	for _, limits := range kinds {
		d.add(limits, leases)
	}
	for i := range n {
		s := subject{name: fmt.Sprintf("user-%d", i), policy: d.policies[i%len(d.policies)], leases: leases}
		s.slot = int(keys.Slot(keys.For("any", s.name, "any", "any")))
		s.shard = owners[s.slot]
		d.subjects = append(d.subjects, s)
	}
	return d
}

// unlent are the limits of subjects each of whose calls Redis decides.
func unlent() [][]shardlimit.Limit {
	return [][]shardlimit.Limit{
		{shardlimit.Per(counted, long)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.GCRA)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.SlidingWindow)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.SlidingLog)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.FixedWindow)},
		{shardlimit.PerSecond(2).WithBurst(4)},
		{shardlimit.Per(exhausted, long).WithAlgorithm(shardlimit.FixedWindow)},
		{shardlimit.Per(exhausted, long), shardlimit.Per(2*exhausted, long).WithAlgorithm(shardlimit.SlidingWindow)},
	}
}

// lent are the limits of hot subjects: two to count by and one that is asked for
// more than it refills, whose units are lent, and two that lend nothing.
func lent(now time.Time) [][]shardlimit.Limit {
	window := shardlimit.Per(plenty, spacious(now))
	return [][]shardlimit.Limit{
		{window.WithAlgorithm(shardlimit.SlidingWindow)},
		{window.WithAlgorithm(shardlimit.FixedWindow)},
		{shardlimit.PerSecond(100).WithBurst(400)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.GCRA)},
		{shardlimit.Per(exhausted, long), shardlimit.Per(2*exhausted, long).WithAlgorithm(shardlimit.SlidingWindow)},
	}
}

func (d *demand) add(limits []shardlimit.Limit, leases shardlimit.LeaseMode) {
	mode := shardlimit.FailOpen()
	if len(d.policies)%2 == 1 {
		mode = shardlimit.FailClosed()
	}
	d.policies = append(d.policies, shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: fmt.Sprintf("%v-%d", mode, len(d.policies)), Limits: limits, OnFailure: mode, Leases: leases,
	}))
}
