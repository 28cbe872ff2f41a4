package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// ruleNodes are where the rules stand; nil where they don't.
type ruleNodes struct{ policies, overrides ast.Node }

// readRules reads all policies and their overrides. Some are needed where Envoy
// has no limits.
func readRules(r *reader, n ruleNodes, needed bool) *rules.Set {
	policies := known{}
	if n.policies != nil {
		readPolicies(r, n.policies, policies)
	} else if needed {
		r.Fault(nil, "policies", "must name at least one policy")
	}
	var overrides []rules.Override
	if n.overrides != nil {
		for i, item := range r.Items("overrides", n.overrides) {
			overrides = append(overrides, readOverride(r, fmt.Sprintf("overrides[%d]", i), item, policies)...)
		}
	}
	return rules.New(policies.right(), overrides)
}

// known are the policies by their names; nil for those that are at fault.
type known map[string]*shardlimit.Policy

// right returns those that aren't at fault.
func (k known) right() []*shardlimit.Policy {
	all := slices.Collect(maps.Values(k))
	return slices.DeleteFunc(all, func(p *shardlimit.Policy) bool { return p == nil })
}

// readPolicies reads all policies.
func readPolicies(r *reader, n ast.Node, all known) {
	items := r.Items("policies", n)
	if len(items) == 0 {
		r.Fault(n, "policies", "must name at least one policy")
	}
	for i, item := range items {
		at := fmt.Sprintf("policies[%d]", i)
		name, p := readPolicy(r, at, item)
		if _, twice := all[name]; twice && name != "" {
			r.Fault(item, at+".name", "%q is another policy's name", name)
			continue
		}
		all[name] = p
	}
}

// readPolicy reads a policy and its name. It is nil where it is at fault.
func readPolicy(r *reader, at string, n ast.Node) (string, *shardlimit.Policy) {
	var c shardlimit.PolicyConfig
	where := places{"": {n, at}, "Name": {n, at + ".name"}, "Limits": {n, at + ".limits"}}
	before := len(r.Faults)
	if !r.Mapping(at, n, map[string]field{
		"name":       where.note("Name", text(&c.Name)),
		"limits":     where.note("Limits", where.limits(&c.Limits)),
		"on_failure": where.note("OnFailure", failureMode(&c.OnFailure)),
		"timeout":    where.note("Timeout", duration(&c.Timeout)),
		"leases":     leaseMode(&c.Leases),
		"parts":      where.note("Parts", number(&c.Parts, 0, 64)),
		"shadow":     yamldoc.Boolean(&c.Shadow),
	}) {
		return "", nil
	}
	if IsReserved(c.Name) {
		node, field := where.at("Name")
		r.Fault(node, field, "%q begins as the names of Envoy's rules do", c.Name)
	}
	p, err := shardlimit.NewPolicy(c)
	r.Objections(err, where.at)
	if len(r.Faults) > before {
		return c.Name, nil
	}
	return c.Name, p
}

// IsReserved reports whether a policy of this name could be taken for one of
// Envoy's rules, in Redis too.
func IsReserved(name string) bool { return strings.HasPrefix(name, "envoy.") }

// failureMode reads what a policy answers while its shard is away.
func failureMode(to *shardlimit.FailureMode) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.Scalar(at, n)
		if !ok {
			return
		}
		share, local := strings.CutPrefix(s, "local ")
		f, err := strconv.ParseFloat(share, 64)
		switch {
		case s == "open":
			*to = shardlimit.FailOpen()
		case s == "closed":
			*to = shardlimit.FailClosed()
		case local && err == nil && !(f > 0 && f <= 1):
			r.Fault(n, at, "%q must have a share above 0 and at most 1", s)
		case local && err == nil:
			*to = shardlimit.FailLocal(f)
		default:
			r.Fault(n, at, "%q must be open, closed, or local and a share, as in local 0.1", s)
		}
	}
}

// leaseMode reads whether a policy's hot subjects are decided in the process.
func leaseMode(to *shardlimit.LeaseMode) field {
	return func(r *reader, at string, n ast.Node) {
		var mode string
		word(&mode, "auto", "off")(r, at, n)
		if mode == "off" {
			*to = shardlimit.LeaseOff
		}
	}
}

// readOverride reads an override of one of policies: one for each of its subjects,
// or none where it is at fault.
func readOverride(r *reader, at string, n ast.Node, policies known) []rules.Override {
	var name string
	var subjects []string
	var limits []shardlimit.Limit
	where := places{
		"": {n, at}, "Name": {n, at + ".policy"}, "Subjects": {n, at + ".subjects"}, "Limits": {n, at + ".limits"},
	}
	before := len(r.Faults)
	if !r.Mapping(at, n, map[string]field{
		"policy":   where.note("Name", text(&name)),
		"subjects": where.note("Subjects", patterns(&subjects)),
		"limits":   where.note("Limits", where.limits(&limits)),
	}) {
		return nil
	}
	if len(subjects) == 0 && len(r.Faults) == before {
		node, field := where.at("Subjects")
		r.Fault(node, field, "must name at least one subject")
	}
	p := readOverridden(r, name, limits, policies, where)
	if len(r.Faults) > before || p == nil {
		return nil
	}
	var all []rules.Override
	for _, s := range subjects {
		all = append(all, rules.Override{Subject: rules.Pattern(s), Policy: p})
	}
	return all
}

// readOverridden returns the policy of this name with other limits, or nil.
func readOverridden(r *reader, name string, limits []shardlimit.Limit, policies known, where places) *shardlimit.Policy {
	p, known := policies[name]
	if !known {
		node, field := where.at("Name")
		r.Fault(node, field, "%q is none of the policies", name)
	}
	if p == nil {
		return nil
	}
	p, err := p.WithLimits(limits...)
	r.Objections(err, where.at)
	return p
}

// places are where in the document the library's fields stand, by their names;
// "" is where all of them do.
type places map[string]place

type place struct {
	node ast.Node
	name string
}

// note reads by f, and notes where it stands.
func (p *place) note(f field) field {
	return func(r *reader, at string, n ast.Node) {
		*p = place{n, at}
		f(r, at, n)
	}
}

// note reads the library's field by f, and notes where it stands.
func (p places) note(field string, f field) field {
	return func(r *reader, at string, n ast.Node) {
		p[field] = place{n, at}
		f(r, at, n)
	}
}

// at returns where the library's field stands, or what holds it.
func (p places) at(field string) (ast.Node, string) {
	for {
		if known, ok := p[field]; ok {
			return known.node, known.name
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
}

// limits reads limits as text.
func (p places) limits(to *[]shardlimit.Limit) field {
	return func(r *reader, at string, n ast.Node) {
		for i, item := range r.Items(at, n) {
			here := place{item, fmt.Sprintf("%s[%d]", at, i)}
			p[fmt.Sprintf("Limits[%d]", i)] = here
			*to = append(*to, readLimit(r, here, i))
		}
	}
}

// readLimit reads one limit. Where it is at fault it is some limit that no other
// one equals, so that the rest of the policy is checked all the same.
func readLimit(r *reader, p place, i int) shardlimit.Limit {
	some := shardlimit.Per(1, time.Hour+time.Duration(i)*time.Millisecond)
	s, ok := r.Scalar(p.name, p.node)
	if !ok {
		return some
	}
	l, err := shardlimit.ParseLimit(s)
	if err != nil {
		r.Objections(err, func(string) (ast.Node, string) { return p.node, p.name })
		return some
	}
	return l
}

// patterns reads subjects' patterns.
func patterns(to *[]string) field {
	return func(r *reader, at string, n ast.Node) {
		for i, item := range r.Items(at, n) {
			at := fmt.Sprintf("%s[%d]", at, i)
			s, ok := r.Scalar(at, item)
			if ok && s == "" {
				r.Fault(item, at, "must not be empty")
			}
			*to = append(*to, s)
		}
	}
}
