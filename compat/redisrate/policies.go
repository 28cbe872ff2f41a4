package redisrate

import (
	"maps"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit"
)

// maxPolicies is how many limits are kept compiled.
const maxPolicies = 1024

// policies are those of the limits that were asked about, up to maxPolicies.
// The zero value is empty.
type policies struct {
	mu      sync.RWMutex
	byLimit map[Limit]*shardlimit.Policy
}

// of returns the policy of a limit. The error joins a *shardlimit.ConfigError
// for each fault of the limit.
func (ps *policies) of(l Limit) (*shardlimit.Policy, error) {
	ps.mu.RLock()
	p := ps.byLimit[l]
	ps.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	p, err := newPolicy(l.limit())
	if err != nil {
		return nil, err
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.keepLocked(l, p)
	return p, nil
}

// keepLocked keeps p, in place of any other if there are too many: compiling
// one again is cheap.
func (ps *policies) keepLocked(l Limit, p *shardlimit.Policy) {
	if ps.byLimit == nil {
		ps.byLimit = make(map[Limit]*shardlimit.Policy)
	}
	for other := range ps.byLimit {
		if len(ps.byLimit) < maxPolicies {
			break
		}
		delete(ps.byLimit, other)
	}
	ps.byLimit[l] = p
}

// newPolicy returns the policy of a limit. It fails closed, as no event may
// happen where an error is returned.
func newPolicy(l shardlimit.Limit) (*shardlimit.Policy, error) {
	return shardlimit.NewPolicy(shardlimit.PolicyConfig{
		Name: "redis_rate", Limits: []shardlimit.Limit{l}, OnFailure: shardlimit.FailClosed(),
	})
}

// shapes returns a policy for each place where events of one key may be counted.
func (ps *policies) shapes() []*shardlimit.Policy {
	found := map[shardlimit.Limit]*shardlimit.Policy{}
	for _, l := range []Limit{PerSecond(1), PerMinute(1), PerHour(1)} {
		if p, err := ps.of(l); err == nil { // they are valid
			found[shapeOf(p)] = p
		}
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	for _, p := range ps.byLimit {
		found[shapeOf(p)] = p
	}
	return slices.Collect(maps.Values(found))
}

// shapeOf returns what a policy's state depends on: the algorithm and the
// period.
func shapeOf(p *shardlimit.Policy) shardlimit.Limit {
	l := p.Limits()[0]
	return shardlimit.Limit{Algorithm: l.Algorithm, Period: l.Period}
}
