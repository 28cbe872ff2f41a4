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
)

// demand is who asks, each subject under one policy.
type demand struct {
	policies []*shardlimit.Policy
	subjects []subject
}

type subject struct {
	name   string
	policy *shardlimit.Policy
	slot   int
	shard  int
}

// terms is what the subject's account is held against.
func (s *subject) terms() ledger.Terms {
	return ledger.Terms{Limits: s.policy.Limits(), Leases: leases}
}

// leases are off: a lease is charged at once for calls to come, and the account
// tells each call's charge from the next's. Leases under faults are judged where
// several processes hold them.
const leases = shardlimit.LeaseOff

// counts reports whether the subject's charges can be counted at the end.
func (s *subject) counts() bool { return s.policy.Limits()[0].Rate == counted }

// open reports whether the subject's policy fails open.
func (s *subject) open() bool { return s.policy.Name()[0] == 'o' }

// newDemand returns n subjects, evenly under policies of all algorithms: some to
// count by, some whose limit is reached, one that refills, one of two limits.
// Every other fails open.
func newDemand(n int, owners *[keys.Slots]int) *demand {
	d := &demand{}
	for _, limits := range [][]shardlimit.Limit{
		{shardlimit.Per(counted, long)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.GCRA)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.SlidingWindow)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.SlidingLog)},
		{shardlimit.Per(counted, long).WithAlgorithm(shardlimit.FixedWindow)},
		{shardlimit.PerSecond(2).WithBurst(4)},
		{shardlimit.Per(exhausted, long).WithAlgorithm(shardlimit.FixedWindow)},
		{shardlimit.Per(exhausted, long), shardlimit.Per(2*exhausted, long).WithAlgorithm(shardlimit.SlidingWindow)},
	} {
		d.add(limits)
	}
	for i := range n {
		s := subject{name: fmt.Sprintf("user-%d", i), policy: d.policies[i%len(d.policies)]}
		s.slot = int(keys.Slot(keys.For("any", s.name, "any", "any")))
		s.shard = owners[s.slot]
		d.subjects = append(d.subjects, s)
	}
	return d
}

func (d *demand) add(limits []shardlimit.Limit) {
	mode := shardlimit.FailOpen()
	if len(d.policies)%2 == 1 {
		mode = shardlimit.FailClosed()
	}
	d.policies = append(d.policies, shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: fmt.Sprintf("%v-%d", mode, len(d.policies)), Limits: limits, OnFailure: mode, Leases: leases,
	}))
}
