// Package rules answers which policy holds for a subject: the one of a name, or
// what an override makes of it.
package rules

import (
	"maps"
	"slices"

	"github.com/shardlimit/shardlimit"
)

// Override gives some subjects other limits under a policy.
type Override struct {
	Subject Pattern
	// Policy is the policy with the other limits. It has the name of the policy
	// that it stands in for, so both share what was used, where their shapes
	// are the same.
	Policy *shardlimit.Policy
}

// Set is all policies and overrides. It is immutable, and safe for concurrent
// use. The zero Set has no policy.
type Set struct {
	policies map[string]*entry
}

// entry is a policy, and its overrides in their order.
type entry struct {
	policy    *shardlimit.Policy
	overrides []Override
	exact     map[string]int // the first override that is this one subject
	globs     []int          // those that may be many
}

// New returns the set of policies, of which no two have one name. Overrides of
// other policies than these hold for nobody.
func New(policies []*shardlimit.Policy, overrides []Override) *Set {
	s := &Set{policies: map[string]*entry{}}
	for _, p := range policies {
		s.policies[p.Name()] = &entry{policy: p, exact: map[string]int{}}
	}
	for _, o := range overrides {
		if e := s.policies[o.Policy.Name()]; e != nil {
			e.add(o)
		}
	}
	return s
}

func (e *entry) add(o Override) {
	i := len(e.overrides)
	e.overrides = append(e.overrides, o)
	if !o.Subject.Exact() {
		e.globs = append(e.globs, i)
	} else if _, known := e.exact[string(o.Subject)]; !known {
		e.exact[string(o.Subject)] = i
	}
}

// Find returns the policy of this name as it holds for the subject: that of the
// first override whose pattern matches, or else the policy itself. by is that
// pattern, "" for none. It returns nil where no policy has the name.
func (s *Set) Find(name, subject string) (p *shardlimit.Policy, by Pattern) {
	e := s.policies[name]
	if e == nil {
		return nil, ""
	}
	first, found := e.exact[subject]
	if !found {
		first = len(e.overrides)
	}
	for _, i := range e.globs {
		if i > first {
			break
		}
		if e.overrides[i].Subject.Match(subject) {
			first = i
			break
		}
	}
	if first == len(e.overrides) {
		return e.policy, ""
	}
	return e.overrides[first].Policy, e.overrides[first].Subject
}

// Names returns the names of all policies, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.policies)) }

// Policy returns the policy of this name as it holds without overrides, or nil.
func (s *Set) Policy(name string) *shardlimit.Policy {
	if e := s.policies[name]; e != nil {
		return e.policy
	}
	return nil
}

// Overrides returns the overrides of the policy of this name, in their order.
func (s *Set) Overrides(name string) []Override {
	if e := s.policies[name]; e != nil {
		return slices.Clone(e.overrides)
	}
	return nil
}
