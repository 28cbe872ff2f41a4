package domains

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// descriptors reads a list of them, which stand below the path.
func (r *reader) descriptors(p place, into *level, path string) {
	if slices.Contains(r.open, p.node) { // by an alias of its own anchor
		r.Fault(p.node, p.name, "must not have itself in it")
		return
	}
	r.open = append(r.open, p.node)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	for i, item := range r.Items(p.name, p.node) {
		at := place{item, fmt.Sprintf("%s[%d]", p.name, i)}
		if n := r.descriptor(at, path); n != nil && !into.add(n) {
			r.Fault(item, at.name, "%s is there already, side by side with it", term(n.Entry))
		}
	}
}

// written is a descriptor as it is written, and where its parts stand.
type written struct {
	node
	shadow, quota                     bool
	key, value, limit, below          place
	shareAt, shadowAt, quotaAt, allAt place
}

// descriptor reads one of them, and those in it. It returns nil where its key is
// at fault.
func (r *reader) descriptor(p place, path string) *node {
	var w written
	if !r.written(p, &w) || !r.check(p, &w) {
		return nil
	}
	path = strings.TrimPrefix(path+"."+term(w.Entry), ".")
	if w.limit.node != nil {
		w.policy = policySource{policyName(r.domain, path), &r.set.settings}
		w.rule = r.rule(w.limit, w.policy, w.shadow)
		w.rule.Quota = w.quota
	}
	if w.below.node != nil {
		r.descriptors(w.below, &w.node.below, path)
	}
	return &w.node
}

// written reads a descriptor's parts, and reports whether it has any.
func (r *reader) written(p place, w *written) bool {
	return r.Mapping(p.name, p.node, map[string]yamldoc.Field{
		"key":             w.key.text(&w.Key),
		"value":           w.value.text(&w.Value),
		"rate_limit":      w.limit.note,
		"descriptors":     w.below.note,
		"shadow_mode":     w.shadowAt.flag(&w.shadow),
		"quota_mode":      w.quotaAt.flag(&w.quota),
		"share_threshold": w.shareAt.flag(&w.share),
		"value_to_metric": yamldoc.Boolean(&w.valueInMetric),
		"detailed_metric": w.allAt.flag(&w.allInMetric),
	})
}

// check keeps the faults of parts that don't go together, and reports whether
// there is a key.
func (r *reader) check(p place, w *written) bool {
	switch {
	case w.Key == "":
		r.Fault(w.key.or(p.node), p.name+".key", "must be there, and not empty")
		return false
	case w.Value == "" && strings.HasSuffix(w.Key, "*"):
		r.Fault(w.key.node, w.key.name, "%q must not end in a *: values may", w.Key)
	case w.share && !w.isWildcard():
		r.Fault(w.shareAt.node, w.shareAt.name, "takes a value with a * in it")
	}
	if w.limit.node == nil {
		r.needsLimit(w.shadow, w.shadowAt)
		r.needsLimit(w.quota, w.quotaAt)
		r.needsLimit(w.allInMetric, w.allAt)
	}
	return true
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
