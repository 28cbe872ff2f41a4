// Package domains answers which limit holds for a descriptor: it reads the
// configuration of envoyproxy/ratelimit, the reference of Envoy's rate limit
// service, and finds a descriptor's rule in it as that service does.
package domains

import (
	"maps"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// Entry is a key and its value, of a descriptor.
type Entry struct{ Key, Value string }

// Set is the rules of all domains. It is immutable, and safe for concurrent use.
// Parse makes one; the zero Set knows no domain.
type Set struct {
	domains  map[string]*level
	settings Settings
}

// Match is the rule that holds for a descriptor, and for whom it counts.
type Match struct {
	Rule *Rule
	// Subject is the entries, as one text. Of an entry whose wildcard shares its
	// limit it is the wildcard, so that all that match it count together.
	Subject string
	// Metric is the descriptor in the terms of the configuration, with its own
	// values where the configuration asks for them in metrics.
	Metric string
}

// level is descriptors that stand side by side. The zero level has none.
type level struct {
	exact     map[Entry]*node // by key and value, "" where any value is meant
	wildcards []*node         // in the order of the file
}

// node is a descriptor of the configuration.
type node struct {
	Entry                      // the value as it is written: "" for any, a wildcard with its *
	texts         []string     // of a wildcard: what stands before, between and after its *
	rule          *Rule        // nil for none
	below         level        // the descriptors in it
	share         bool         // all values of the wildcard count together
	valueInMetric bool         // of a wildcard, or of any value
	allInMetric   bool         // all entries' values
	policy        policySource // of limits that requests bring
}

// policySource makes policies under one name.
type policySource struct {
	name     string
	settings *Settings
}

// Names returns the names of all domains, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.domains)) }

// Find returns the rule of the descriptor in the domain. There is none where
// the domain or the descriptor isn't configured, or is configured with more or
// fewer entries.
func (s *Set) Find(domain string, entries []Entry) (m Match, found bool) {
	path := s.path(domain, entries)
	if path == nil || path[len(path)-1].rule == nil {
		return Match{}, false
	}
	rule := path[len(path)-1].rule
	return Match{Rule: rule, Subject: subject(entries, path), Metric: metric(domain, entries, path)}, true
}

// FindOr is Find where the request brings a limit, which holds in the rule's
// place, in every domain that is configured. It counts in common with the rule
// where both have the same period. Nothing else of the rule holds for it. The
// error is a *shardlimit.ConfigError.
func (s *Set) FindOr(domain string, entries []Entry, brought Limit) (m Match, found bool, err error) {
	if s.domains[domain] == nil {
		return Match{}, false, nil
	}
	source := policySource{policyName(domain, ""), &s.settings}
	path := s.path(domain, entries)
	if path != nil && path[len(path)-1].rule != nil {
		source = path[len(path)-1].policy
	} else {
		path = nil
	}
	policy, err := source.policy(brought, false)
	if err != nil {
		return Match{}, false, err
	}
	rule := &Rule{Limit: brought, Policy: policy}
	return Match{Rule: rule, Subject: subject(entries, path), Metric: metric(domain, entries, path)}, true, nil
}

// path returns the configuration's descriptors that match the entries one by
// one, or nil.
func (s *Set) path(domain string, entries []Entry) []*node {
	at := s.domains[domain]
	if at == nil || len(entries) == 0 {
		return nil
	}
	path := make([]*node, len(entries))
	for i, e := range entries {
		n := at.find(e)
		if n == nil {
			return nil
		}
		path[i], at = n, &n.below
	}
	return path
}

// find returns the descriptor that matches e best: its value, else the first
// wildcard that covers it, else its key alone.
func (l *level) find(e Entry) *node {
	if n := l.exact[e]; n != nil && e.Value != "" {
		return n
	}
	for _, n := range l.wildcards {
		if n.Key == e.Key && n.covers(e.Value) {
			return n
		}
	}
	return l.exact[Entry{Key: e.Key}]
}

// isWildcard reports whether the value stands for others: each * in it is any
// text, also none.
func (e Entry) isWildcard() bool { return strings.Contains(e.Value, "*") }

// covers reports whether the wildcard stands for the value: it begins and ends
// with the first and the last text, and the others follow each other in between.
func (n *node) covers(value string) bool {
	last := len(n.texts) - 1
	value, begins := strings.CutPrefix(value, n.texts[0])
	value, ends := strings.CutSuffix(value, n.texts[last])
	if !begins || !ends {
		return false
	}
	for _, text := range n.texts[1:last] {
		var found bool
		if _, value, found = strings.Cut(value, text); !found {
			return false
		}
	}
	return true
}

// add puts n beside the others. It reports whether none of them is the same.
func (l *level) add(n *node) bool {
	if _, known := l.exact[n.Entry]; known {
		return false
	}
	if l.exact == nil {
		l.exact = map[Entry]*node{}
	}
	l.exact[n.Entry] = n
	if n.isWildcard() {
		n.texts = strings.Split(n.Value, "*")
		l.wildcards = append(l.wildcards, n)
	}
	return true
}

// policy returns the policy of a limit, nil where no request passes.
func (p policySource) policy(l Limit, shadow bool) (*shardlimit.Policy, error) {
	if l.Requests == 0 {
		return nil, l.checkPeriod()
	}
	return shardlimit.NewPolicy(shardlimit.PolicyConfig{
		Name: p.name,
		Limits: []shardlimit.Limit{{
			Algorithm: p.settings.Algorithm, Rate: int64(l.Requests), Period: l.Period(),
		}},
		OnFailure: p.settings.OnFailure,
		Timeout:   p.settings.Timeout,
		Leases:    p.settings.Leases,
		Shadow:    shadow,
	})
}
