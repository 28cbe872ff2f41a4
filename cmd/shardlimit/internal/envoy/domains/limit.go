package domains

import (
	"fmt"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// limitPlaces are where a limit and its parts stand.
type limitPlaces struct {
	whole                                place
	unit, multiplier, requests, replaces place
}

// rule reads a limit. It is never nil.
func (r *reader) rule(p place, source policySource, shadow bool) *Rule {
	rule, at, unit := &Rule{Shadow: shadow}, limitPlaces{whole: p}, ""
	var name place
	if !r.Mapping(p.name, p.node, map[string]yamldoc.Field{
		"unit":              at.unit.text(&unit),
		"unit_multiplier":   at.multiplier.note,
		"requests_per_unit": at.requests.note,
		"unlimited":         yamldoc.Boolean(&rule.Unlimited),
		"name":              name.text(&rule.Name),
		"replaces":          at.replaces.note,
	}) {
		return rule
	}
	if at.replaces.node != nil {
		rule.Replaces = r.replaces(at.replaces, rule.Name)
	}
	if rule.Unlimited {
		r.leftOut(at.unit, at.multiplier, at.requests)
		return rule
	}
	r.limit(rule, unit, &at, source)
	return rule
}

// leftOut keeps a fault for each that is there.
func (r *reader) leftOut(all ...place) {
	for _, p := range all {
		if p.node != nil {
			r.Fault(p.node, p.name, "must be left out where unlimited is true")
		}
	}
}

// limit reads the rule's limit, and makes its policy.
func (r *reader) limit(rule *Rule, unit string, at *limitPlaces, source policySource) {
	before := len(r.Faults)
	rule.Limit = Limit{
		Requests:   r.requests(at.requests, at.whole),
		Unit:       r.unit(unit, at.unit, at.whole),
		Multiplier: r.multiplier(at.multiplier),
	}
	if len(r.Faults) > before {
		return
	}
	var err error
	rule.Policy, err = source.policy(rule.Limit, rule.Shadow)
	r.Objections(err, at.of)
}

// of returns where the library's field stands.
func (at *limitPlaces) of(field string) (ast.Node, string) {
	switch field {
	case "Limits[0].Period":
		return at.multiplier.or(at.unit.node), at.whole.name
	case "Limits[0].Rate":
		return at.requests.node, at.requests.name
	default:
		return at.whole.node, at.whole.name
	}
}

// maxRequests is the most requests that a limit may have, as the library's.
const maxRequests = 1_000_000_000

// requests reads how many requests a limit in is.
func (r *reader) requests(p, in place) uint32 {
	if p.node == nil {
		r.Fault(in.node, in.name+".requests_per_unit", "must be there, or unlimited: true in its place")
		return 0
	}
	n, _ := r.Whole(p.name, p.node, 0, maxRequests)
	return uint32(n)
}

// unit returns the unit of this name.
func (r *reader) unit(name string, p, in place) Unit {
	unit := Unit(ratelimit.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)])
	const want = "second, minute, hour, day, week, month or year"
	switch {
	case p.node == nil:
		r.Fault(in.node, in.name+".unit", "must be there: %s", want)
	case seconds[unit] == 0:
		r.Fault(p.node, p.name, "%q must be %s", name, want)
	}
	return unit
}

// multiplier reads how many units a period is.
func (r *reader) multiplier(p place) uint32 {
	if p.node == nil {
		return 1
	}
	n, _ := r.Whole(p.name, p.node, 1, maxRequests)
	return uint32(n)
}

// replaces reads the names of the limits that one of this name stands in for.
func (r *reader) replaces(p place, name string) []string {
	var all []string
	for i, item := range r.Items(p.name, p.node) {
		var one place
		var other string
		at := fmt.Sprintf("%s[%d]", p.name, i)
		switch {
		case !r.Mapping(at, item, map[string]yamldoc.Field{"name": one.text(&other)}):
		case other == "":
			r.Fault(one.or(item), at+".name", "must be there, and not empty")
		case other == name:
			r.Fault(one.node, one.name, "%q is the limit's own name", other)
		}
		all = append(all, other)
	}
	return all
}
