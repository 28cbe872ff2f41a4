package shardlimit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// PolicyConfig is what a Policy is made of.
type PolicyConfig struct {
	// Name is part of each key: up to 64 of A-Z a-z 0-9 _ . and -. Policies of
	// different names share nothing.
	Name string
	// Limits are 1 to 8, all different. All of them must pass: a unit is charged
	// to each or to none. A SlidingLog stands alone.
	Limits []Limit
	// OnFailure is what to answer where Redis can't; the zero value is
	// FailOpen().
	OnFailure FailureMode
	// Timeout is as Config.Timeout, which 0 means.
	Timeout time.Duration
	// Leases says whether a subject that is asked for often is decided in the
	// process, from units that were charged before; the zero value is LeaseAuto.
	Leases LeaseMode
	// Parts splits what a subject may use over as many keys, 2 to 64, which lie
	// evenly over the slots and so on all shards: for a subject that is asked for
	// more often than one shard can answer, leases included. 0 splits nothing.
	//
	// Each part has its share of each limit, in whole units, and its own leases:
	// never do more pass than without parts. A request is charged to one part. It
	// goes to the one that this process prefers for the subject, then, if that
	// refuses or can't be asked, to two others by chance, and then it is denied,
	// with the least RetryAfter of those: so some are refused while a part that was
	// not asked still has units, and a SlidingWindow passes up to a unit less in each
	// part and period, as each rounds down. A cost must fit into the smallest part, which
	// holds 4 units at least. Remaining and ResetAfter are the part's that decided.
	//
	// Where one of the three answered, its answer stands; the failure mode answers
	// if none did, or if a call may have been charged without an answer. FailLocal
	// knows no parts. Charge goes to the preferred part, or where that can't be
	// asked to another, and AllowAtMost takes what fits into one part. Peek adds up
	// all parts that answer, and Reset resets all. A limit under another number of Parts starts
	// with nothing used. Windows of parts end as far apart as their shards' clocks.
	Parts int
	// Shadow decides, charges, counts and reports, but allows whatever would be
	// denied: to try a policy out before it holds. So it allows where a failure
	// mode denies, and where Redis is set up wrongly: Result.Failure has the
	// error then, and the Logger and the Observer are told of it as ever. Wrong
	// calls stay errors: a cost that can never pass, an empty subject.
	Shadow bool
}

// Policy is a set of limits under a name. It is immutable, and safe for
// concurrent use. The zero Policy is useless: calls with it fail with
// ErrNoPolicy.
type Policy struct {
	config PolicyConfig
	shape  string // of the state, in the key
	plan   *scripts.Plan
	share  *scripts.Plan // of FailLocal; else nil
	spec   *hotkey.Spec
	most   int64 // units, of one request

	parts []*Policy // what Parts splits it into; else nil
	part  int       // which of them it is, counted from 1; else 0
}

const maxLimits = 8

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// NewPolicy returns the policy that c describes. The error joins a *ConfigError
// for each fault of c.
//
// State is kept by name, subject, and the limits' algorithms and periods in
// their order. A policy with another rate or burst meets what was used under
// the old one at once; another algorithm, period, order or number of Parts starts
// with nothing used.
func NewPolicy(c PolicyConfig) (*Policy, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.Limits = slices.Clone(c.Limits)
	p := &Policy{config: c, shape: shape(c.Limits), plan: plan(c.Limits)}
	if c.OnFailure.kind == failLocal {
		p.share = plan(c.OnFailure.shares(c.Limits))
	}
	p.spec, p.most = p.hot(), p.plan.Capacity()
	if c.Parts > 0 {
		p.split()
	}
	return p, nil
}

// MustPolicy is NewPolicy for policies that are written in code: it panics
// where NewPolicy returns an error.
func MustPolicy(c PolicyConfig) *Policy {
	p, err := NewPolicy(c)
	if err != nil {
		panic(err)
	}
	return p
}

// WithLimits returns the policy with other limits, as for a plan or a customer
// of their own. State is shared as NewPolicy says: whoever changes plans keeps what
// they have used, in units. Under a higher limit the difference passes at once;
// under a lower one nothing does until what is above it has decayed. A GCRA keeps
// how full it is instead: one that is used up stays so. Units that were lent under
// the old limits may be spent until their lease ends, 200 ms at most.
func (p *Policy) WithLimits(limits ...Limit) (*Policy, error) {
	if !p.valid() {
		return nil, ErrNoPolicy
	}
	c := p.config
	c.Limits = limits
	return NewPolicy(c)
}

// Name returns the policy's name, "" of the zero Policy.
func (p *Policy) Name() string { return p.config.Name }

// Limits returns a copy of the policy's limits.
func (p *Policy) Limits() []Limit { return slices.Clone(p.config.Limits) }

// Shadow reports whether the policy is only tried out: it refuses nothing.
func (p *Policy) Shadow() bool { return p.config.Shadow }

// Config returns what the policy was made of.
func (p *Policy) Config() PolicyConfig {
	c := p.config
	c.Limits = slices.Clone(c.Limits)
	return c
}

// valid reports whether NewPolicy made p.
func (p *Policy) valid() bool { return p != nil && p.plan != nil }

// check returns every fault of c.
func (c PolicyConfig) check() error {
	var faults []error
	fault := func(bad bool, field string, value any, reason string) {
		if bad {
			faults = append(faults, &ConfigError{Field: field, Value: value, Reason: reason})
		}
	}
	fault(!nameForm.MatchString(c.Name), "Name", c.Name, "must match "+nameForm.String())
	fault(len(c.Limits) < 1 || len(c.Limits) > maxLimits, "Limits", len(c.Limits), "must be 1 to 8")
	for i, l := range c.Limits {
		at := fmt.Sprintf("Limits[%d]", i)
		faults = append(faults, l.check(at+"."))
		fault(l.Algorithm == SlidingLog && len(c.Limits) > 1, at+".Algorithm", l.Algorithm, "must be the policy's only limit")
		fault(slices.ContainsFunc(c.Limits[:i], l.equal), at, l, "is there already")
	}
	fault(c.Leases > LeaseOff, "Leases", c.Leases, "must be LeaseAuto or LeaseOff")
	faults = append(faults, c.checkParts()...)
	faults = append(faults, c.OnFailure.check(c.Limits), checkTimeout(c.Timeout))
	return errors.Join(faults...)
}

// equal reports whether l and o decide alike: a burst of 0 is one of Rate.
func (l Limit) equal(o Limit) bool {
	l.Burst, o.Burst = l.capacity(), o.capacity()
	return l == o
}

func shape(limits []Limit) string {
	terms := make([]keys.Term, len(limits))
	for i, l := range limits {
		terms[i] = keys.Term{Algorithm: l.Algorithm.String(), Period: l.Period.Microseconds()}
	}
	return keys.Shape(scripts.StateVersion, terms...)
}

func plan(limits []Limit) *scripts.Plan {
	rules := make([]rule.Limit, len(limits))
	for i, l := range limits {
		rules[i] = l.rule()
	}
	return scripts.NewPlan(rules...)
}

// checkCost returns a *CostError unless every limit can hold cost, in each of its
// parts.
func (p *Policy) checkCost(cost int64) error {
	if cost >= 1 && cost <= p.most {
		return nil
	}
	of := p.config.Limits[0]
	for _, l := range p.config.Limits {
		if cost > l.smallest(p.config.Parts).capacity() {
			of = l
			break
		}
	}
	return &CostError{Cost: cost, Limit: of, Parts: p.config.Parts}
}

// checkDebt returns an error unless every limit can go into debt by cost: a
// *ConfigError of gcra, and else a *CostError.
func (p *Policy) checkDebt(cost int64) error {
	for i, l := range p.config.Limits {
		if l.Algorithm == GCRA {
			return &ConfigError{
				Field: fmt.Sprintf("Limits[%d].Algorithm", i), Value: l.Algorithm,
				Reason: "can't go into debt, so it takes no Charge: use token_bucket",
			}
		}
		if cost < 1 || l.smallest(p.config.Parts).outlasts(cost) {
			return &CostError{Cost: cost, Limit: l, Parts: p.config.Parts}
		}
	}
	return nil
}

// logs reports whether a charge needs a nonce, by which its entries are told
// from others'.
func (p *Policy) logs() bool { return p.config.Limits[0].Algorithm == SlidingLog }
