package shardlimit

import "errors"

// member is the requests of an AllowAll that one call is made for.
type member struct {
	ask      *asked
	receipt  *receipt // of its first call, whatever comes of it
	requests []int    // where they are among all
	costs    []int64  // of each

	// Set by the allOrNone.
	result Result   // once decided that of the whole
	err    error    // why there is none
	charge *receipt // of what to give back if not all pass; nil: nothing
}

// subjectOf is what requests have in common that are taken together.
type subjectOf struct {
	policy  *Policy
	subject string
}

// bundle is requests of one policy and subject.
type bundle struct {
	subjectOf
	requests []int // where they are among all
	costs    []int64
	sum      int64
}

// members returns the calls to make for reqs, or what is wrong with those.
func (l *Limiter) members(reqs []Request) ([]member, error) {
	bundles, faults := bundled(reqs)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	members := make([]member, 0, len(bundles))
	for _, b := range bundles {
		members = l.join(members, b)
	}
	return members, nil
}

// bundled returns the requests by policy and subject, in the order of the first
// of each, and a *RequestError for each fault.
func bundled(reqs []Request) (bundles []*bundle, faults []error) {
	known := make(map[subjectOf]*bundle, len(reqs))
	for i := range reqs {
		q := &reqs[i]
		if err := q.check(); err != nil {
			faults = append(faults, &RequestError{Index: i, Err: err})
			continue
		}
		same := subjectOf{q.Policy, q.Subject}
		b := known[same]
		if b == nil {
			b = &bundle{subjectOf: same}
			known[same], bundles = b, append(bundles, b)
		}
		b.requests, b.costs, b.sum = append(b.requests, i), append(b.costs, q.cost()), b.sum+q.cost()
	}
	for _, b := range bundles {
		if err := b.policy.checkCost(b.sum); err != nil {
			faults = append(faults, &RequestError{Index: b.requests[0], Err: err})
		}
	}
	return bundles, faults
}

// join appends the members for b: one, but of a log one for each request, as each
// must find its own entries to give them back.
func (l *Limiter) join(members []member, b *bundle) []member {
	if !b.policy.logs() {
		return append(members, l.member(b, b.sum, b.requests, b.costs))
	}
	for n := range b.requests {
		members = append(members, l.member(b, b.costs[n], b.requests[n:n+1], b.costs[n:n+1]))
	}
	return members
}

func (l *Limiter) member(b *bundle, cost int64, requests []int, costs []int64) member {
	ask := l.taking(b.policy, b.subject, cost)
	return member{ask: ask, receipt: ask.receipt, requests: requests, costs: costs}
}

// whole returns the member's result where all passed, or not.
func (m *member) whole(passed bool) Result {
	r := m.result
	if passed {
		return r
	}
	if r.Allowed {
		r.RetryAfter = 0 // of one that was shadowed it is not
	}
	if m.charge != nil {
		r.Remaining += m.charge.granted
	}
	r.Allowed, r.Granted, r.receipt = false, 0, nil
	return r
}

// part returns the result of the member's nth request: of what was granted its
// own cost, with a receipt for that.
func (m *member) part(n int) Result {
	r := m.result
	if r.Granted == 0 || len(m.requests) == 1 {
		return r
	}
	r.Granted = m.costs[n]
	if c := r.receipt; c != nil {
		r.receipt = &receipt{
			limiter: c.limiter, policy: c.policy, key: c.key, call: c.call, reply: c.reply,
			nonce: c.nonce, share: c.share, granted: m.costs[n],
		}
	}
	return r
}
