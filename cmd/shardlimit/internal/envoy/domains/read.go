package domains

import (
	"fmt"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// File is a file of the configuration. Each of its documents is a domain.
type File struct {
	Path string
	Text []byte
}

// Parse reads the files. The error is a yamldoc.FileError with all that is wrong
// with them.
func Parse(files []File, settings Settings) (*Set, error) {
	s := &Set{domains: map[string]*level{}, settings: settings}
	var faults yamldoc.FileError
	for _, f := range files {
		for _, fault := range s.parse(f.Text) {
			fault.Path = f.Path
			faults = append(faults, fault)
		}
	}
	if err := faults.Sorted(); err != nil {
		return nil, err
	}
	return s, nil
}

// parse adds the domains of a text.
func (s *Set) parse(text []byte) yamldoc.FileError {
	documents, faults := yamldoc.Parse(text)
	for _, body := range documents {
		if body != nil {
			r := reader{set: s, Reader: yamldoc.Reader{Refused: refused}}
			r.document(body)
			faults = append(faults, r.Faults...)
		}
	}
	return faults
}

// reader reads one document.
type reader struct {
	yamldoc.Reader
	set    *Set
	domain string
}

// document reads a domain and its descriptors.
func (r *reader) document(n ast.Node) {
	var domain, descriptors place
	if !r.Mapping("", n, map[string]yamldoc.Field{
		"domain":      domain.text(&r.domain),
		"descriptors": descriptors.note,
	}) {
		return
	}
	known := r.set.domains[r.domain]
	switch {
	case r.domain == "":
		r.Fault(domain.or(n), "domain", "must be there, and not empty")
	case known != nil && !r.set.settings.Merge:
		r.Fault(domain.node, "domain", "%q is another document's domain too", r.domain)
		known = nil
	}
	if known == nil {
		known = &level{}
		r.set.domains[r.domain] = known
	}
	if descriptors.node != nil {
		r.descriptors(descriptors, known, "")
	}
}

// place is where something stands in a document. The zero place is of what was
// left out.
type place struct {
	node ast.Node
	name string
}

// note is a field that is read later, if at all.
func (p *place) note(_ *yamldoc.Reader, at string, n ast.Node) { *p = place{n, at} }

// or returns the node, or n where it was left out.
func (p *place) or(n ast.Node) ast.Node {
	if p.node != nil {
		return p.node
	}
	return n
}

// text notes and reads text. Numbers and booleans are text too, as they are
// written.
func (p *place) text(to *string) yamldoc.Field {
	return func(r *yamldoc.Reader, at string, n ast.Node) {
		p.note(r, at, n)
		switch n.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			*to = n.GetToken().Value
		default:
			*to, _ = r.Scalar(at, n)
		}
	}
}

// flag notes and reads true or false.
func (p *place) flag(to *bool) yamldoc.Field {
	return func(r *yamldoc.Reader, at string, n ast.Node) {
		p.note(r, at, n)
		yamldoc.Boolean(to)(r, at, n)
	}
}

// descriptors reads a list of them, which stand below the path.
func (r *reader) descriptors(p place, into *level, path string) {
	for i, item := range r.Items(p.name, p.node) {
		at := place{item, fmt.Sprintf("%s[%d]", p.name, i)}
		if n := r.descriptor(at, path); n != nil && !into.add(n) {
			r.Fault(item, at.name, "%s is there already, side by side with it", term(n.Entry))
		}
	}
}

// descriptor reads one of them, and those in it. It returns nil where its key is
// at fault.
func (r *reader) descriptor(p place, path string) *node {
	var n node
	var shadow, quota bool
	var key, value, limit, below, share, shadowAt, quotaAt, all place
	if !r.Mapping(p.name, p.node, map[string]yamldoc.Field{
		"key":             key.text(&n.Key),
		"value":           value.text(&n.Value),
		"rate_limit":      limit.note,
		"descriptors":     below.note,
		"shadow_mode":     shadowAt.flag(&shadow),
		"quota_mode":      quotaAt.flag(&quota),
		"share_threshold": share.flag(&n.share),
		"value_to_metric": yamldoc.Boolean(&n.valueInMetric),
		"detailed_metric": all.flag(&n.allInMetric),
	}) {
		return nil
	}
	switch {
	case n.Key == "":
		r.Fault(key.or(p.node), p.name+".key", "must be there, and not empty")
		return nil
	case n.Value == "" && strings.HasSuffix(n.Key, "*"):
		r.Fault(key.node, key.name, "%q must not end in a *: values may", n.Key)
	case n.share && !n.isWildcard():
		r.Fault(share.node, share.name, "takes a value that ends in a *")
	}
	path = strings.TrimPrefix(path+"."+term(n.Entry), ".")
	if limit.node != nil {
		n.policy = policySource{policyName(r.domain, path), &r.set.settings}
		n.rule = r.rule(limit, n.policy, shadow)
		n.rule.Quota = quota
	} else {
		r.needsLimit(shadow, shadowAt)
		r.needsLimit(quota, quotaAt)
		r.needsLimit(n.allInMetric, all)
	}
	if below.node != nil {
		r.descriptors(below, &n.below, path)
	}
	return &n
}

// needsLimit keeps a fault where something is set that does nothing without a
// limit beside it.
func (r *reader) needsLimit(set bool, p place) {
	if set {
		r.Fault(p.node, p.name, "does nothing without a rate_limit beside it")
	}
}

// refused are the reference's keys that aren't obeyed here.
var refused = map[string]string{"metadata": "answers carry no dynamic metadata"}

// rule reads a limit. It is never nil.
func (r *reader) rule(p place, source policySource, shadow bool) *Rule {
	rule := &Rule{Shadow: shadow}
	var unit, requests, multiplier, name, replaces place
	var unitName string
	if !r.Mapping(p.name, p.node, map[string]yamldoc.Field{
		"unit":              unit.text(&unitName),
		"unit_multiplier":   multiplier.note,
		"requests_per_unit": requests.note,
		"unlimited":         yamldoc.Boolean(&rule.Unlimited),
		"name":              name.text(&rule.Name),
		"replaces":          replaces.note,
	}) {
		return rule
	}
	if replaces.node != nil {
		rule.Replaces = r.replaces(replaces, rule.Name)
	}
	if rule.Unlimited {
		for _, set := range []place{unit, multiplier, requests} {
			if set.node != nil {
				r.Fault(set.node, set.name, "must be left out where unlimited is true")
			}
		}
		return rule
	}
	before := len(r.Faults)
	rule.Limit = Limit{
		Requests: r.requests(requests, p), Unit: r.unit(unitName, unit, p), Multiplier: r.multiplier(multiplier),
	}
	if len(r.Faults) > before {
		return rule
	}
	var err error
	rule.Policy, err = source.policy(rule.Limit, shadow)
	r.Objections(err, func(field string) (ast.Node, string) {
		switch field {
		case "Limits[0].Period":
			return multiplier.or(unit.node), p.name
		case "Limits[0].Rate":
			return requests.node, requests.name
		default:
			return p.node, p.name
		}
	})
	return rule
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
