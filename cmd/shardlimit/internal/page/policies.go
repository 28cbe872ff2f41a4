package page

import (
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
)

// policies are those that hold, as the page shows them.
type policies struct {
	Rows          []policy
	More          int // that aren't shown
	Overrides     []override
	MoreOverrides int
}

// policy is one, as it holds without overrides.
type policy struct {
	shardlimit.PolicyConfig
	Rate   string // of decisions
	Denied string
	Chart  chart
}

// override is the limits of some subjects.
type override struct {
	Policy  string
	Subject subject // a pattern
	Limits  []shardlimit.Limit
}

// The rows shown of each.
const (
	policiesShown  = 100
	overridesShown = 50
)

func newPolicies(past *past, set *rules.Set) policies {
	var p policies
	for _, name := range set.Names() {
		if len(p.Rows) < policiesShown {
			p.Rows = append(p.Rows, newPolicy(set.Policy(name), past.policies[name]))
		} else {
			p.More++
		}
		for _, o := range set.Overrides(name) {
			if len(p.Overrides) < overridesShown {
				p.Overrides = append(p.Overrides, override{name, newSubject(string(o.Subject)), o.Policy.Limits()})
			} else {
				p.MoreOverrides++
			}
		}
	}
	return p
}

func newPolicy(p *shardlimit.Policy, decided *series) policy {
	if decided == nil {
		decided = new(series)
	}
	now := decided.now()
	refused := now.denied + now.shadowed // would be, under a Shadow
	return policy{p.Config(), rate(now.all()), percent(refused, now.all()), newChart(decided, sparkHeight)}
}

// Wait returns how long the policy waits for Redis, "" where it's as all do.
func (p policy) Wait() string {
	if p.Timeout == 0 {
		return ""
	}
	return p.Timeout.Round(time.Microsecond).String()
}
