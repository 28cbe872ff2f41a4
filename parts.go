package shardlimit

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit/cluster"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/scripts"
)

// The bounds of PolicyConfig.Parts.
const (
	maxParts  = 64
	leastPart = 4 // units that a part can hold
)

// checkParts returns why the limits can't be split into c.Parts. Of limits that
// are invalid themselves it says nothing.
func (c *PolicyConfig) checkParts() (faults []error) {
	fault := func(reason string) {
		faults = append(faults, &ConfigError{Field: "Parts", Value: c.Parts, Reason: reason})
	}
	switch {
	case c.Parts == 0:
		return nil
	case c.Parts < 2 || c.Parts > maxParts:
		fault("must be 2 to 64; 0 means that nothing is split")
		return faults
	}
	for i, l := range c.Limits {
		switch first := l.part(0, c.Parts); { // the largest
		case l.check("") != nil:
		case l.capacity() < leastPart*int64(c.Parts):
			fault(fmt.Sprintf("leaves less than 4 units a part of Limits[%d], %v", i, l))
		case first.outlasts(first.Burst):
			fault(fmt.Sprintf("rounds the burst of Limits[%d], %v, up to more than 10 years for a part", i, l))
		}
	}
	return faults
}

// part returns what part i of n, counted from 0, has of l: so that all of them
// never pass more together. What refills keeps its rate to the last unit, spread
// over n periods; a burst, or what a window holds, is split into whole units.
func (l Limit) part(i, n int) Limit {
	if l.hasBurst() {
		l.Burst, l.Period = piece(l.capacity(), i, n), l.Period*time.Duration(n)
	} else {
		l.Rate = piece(l.Rate, i, n)
	}
	return l
}

// smallest returns what the smallest of n parts has of l: l itself if n is 0.
func (l Limit) smallest(n int) Limit {
	if n == 0 {
		return l
	}
	return l.part(n-1, n)
}

// piece returns the ith of n whole numbers that add up to units: the first ones
// are greater by one, where they do not come out even.
func piece(units int64, i, n int) int64 {
	each, rest := units/int64(n), units%int64(n)
	if int64(i) < rest {
		each++
	}
	return each
}

// split makes the parts of p: policies that differ from it in what they hold, and
// in the key. What no part can answer is for p to answer, and to shadow.
func (p *Policy) split() {
	c := p.config
	c.OnFailure, c.Shadow = FailClosed(), false
	for i := range c.Parts {
		limits := make([]Limit, len(c.Limits))
		for n, l := range c.Limits {
			limits[n] = l.part(i, c.Parts)
		}
		part := &Policy{config: c, shape: p.shape, plan: plan(limits), part: i + 1}
		part.spec = part.hot()
		p.parts = append(p.parts, part)
	}
	p.most = p.parts[c.Parts-1].plan.Capacity()
}

// partsAsked is how many parts of a subject are asked about a request: the
// process's own, and two others.
const partsAsked = 3

// tour is one request on its way from part to part of its subject.
type tour struct {
	limiter     *Limiter
	policy      *Policy // that has the parts
	subject     string
	op          scripts.Op
	cost, count int64
	knows       bool // what this process knows may decide

	known int64 // parts that it decided about by that

	asked    int
	other    int       // the latest part asked, counted from behind the own one
	deadline time.Time // once the first call is made
	over     bool

	answered bool
	result   Result // of the part that passes, or would the soonest
	down     error  // why a part did not answer
	fault    error  // why there is no decision
}

func (l *Limiter) tour(p *Policy, subject string, op scripts.Op, cost, count int64) tour {
	return tour{limiter: l, policy: p, subject: subject, op: op, cost: cost, count: count}
}

// askParts decides about a request by the parts of its subject.
func (l *Limiter) askParts(ctx context.Context, p *Policy, subject string, op scripts.Op, cost, count int64) (Result, error) {
	if op == scripts.Peek {
		return l.peekParts(ctx, p, subject)
	}
	t := l.tour(p, subject, op, cost, count)
	t.knows = op == scripts.Take && count == 1
	for r := t.next(); r != nil; r = t.next() {
		t.take(l.run(ctx, r))
	}
	return t.outcome()
}

// knownOrTour writes what this process knows of a request, or returns the first
// call of its tour.
func (l *Limiter) knownOrTour(p *Policy, subject string, cost int64, r *Result) *asked {
	t := l.tour(p, subject, scripts.Take, cost, 1)
	t.knows = true
	first := t.next()
	if first == nil {
		*r, _ = t.outcome() // no part was at fault
		return nil
	}
	return &asked{receipt: first, tour: &t}
}

// next returns the receipt of the next call, or nil if there is none to make.
func (t *tour) next() *receipt {
	for part := t.part(); part != nil; part = t.part() {
		if t.knows {
			if r := (Result{}); t.limiter.known(part, t.subject, t.cost, &r) {
				t.take(r, nil)
				t.known++
				continue
			}
		}
		return t.receipt(part)
	}
	return nil
}

// part returns the next part to ask, or nil if the tour is over. The own one comes
// first: the same for a subject as long as the process lives, and another in other
// processes. The two others are drawn for each request, so that one process can
// use all of a limit, and lie about half of the slots apart: one shard seldom
// serves both.
func (t *tour) part() *Policy {
	parts := t.policy.parts
	n, at := uint64(len(parts)), maphash.String(t.limiter.seed, t.subject)
	switch others := len(parts) - 1; {
	case t.over || t.asked == t.most() || !t.deadline.IsZero() && !time.Now().Before(t.deadline):
		return nil
	case t.asked == 1:
		t.other = rand.IntN(others)
		at += 1 + uint64(t.other)
	case t.asked == 2:
		t.other = (t.other + others/2) % others
		at += 1 + uint64(t.other)
	}
	t.asked++
	return parts[at%n]
}

// most returns how many parts are asked.
func (t *tour) most() int { return min(partsAsked, len(t.policy.parts)) }

// receipt returns the receipt of a call to the part. All calls of a tour share the
// policy's Timeout. They don't wait for a shard that refuses them where another
// part has answered, or may yet.
func (t *tour) receipt(part *Policy) *receipt {
	r := t.limiter.receipt(part, t.subject, t.op, t.cost, t.count)
	if t.deadline.IsZero() {
		t.deadline = time.Now().Add(t.limiter.timeout(part))
	} else {
		r.left = max(time.Until(t.deadline), 1)
	}
	r.call.Elsewhere = t.answered || t.asked < t.most()
	return r
}

// take notes what a part answered. A call that may have run is the last: another
// might charge the request twice.
func (t *tour) take(r Result, err error) {
	down, ok := r.Failure.(*UnavailableError) //nolint:errorlint // as answer made it
	switch {
	case err != nil:
		t.fault, t.over = err, true
	case ok:
		t.down, t.over = down, down.Unknown
	default:
		if !t.answered || r.Allowed || r.RetryAfter < t.result.RetryAfter {
			t.result = r
		}
		t.answered, t.over = true, r.Allowed
	}
}

// outcome returns the decision. A part's refusal counts for more than another's
// silence: else who is denied would pass by the failure mode once in a while, as
// long as a shard is away.
func (t *tour) outcome() (Result, error) {
	t.countOnce()
	if t.answered && t.fault == nil {
		return t.policy.shadowed(t.result, t.cost*t.count), nil
	}
	whole := t.limiter.receipt(t.policy, t.subject, t.op, t.cost, t.count)
	return t.limiter.answer(whole, scripts.Reply{}, cmp.Or(t.fault, t.down))
}

// countOnce takes back what the local tier counted of the parts, but for the one
// whose answer is the decision: a request counts once.
func (t *tour) countOnce() {
	denied := t.known
	if s := t.result.Source; t.answered && t.fault == nil && (s == FromDenial || s == FromLease) {
		denied--
	}
	if denied > 0 {
		t.limiter.counters.denied.Add(-denied)
	}
}

// goOn takes in what became of the call a, and makes it that to the next part. It
// reports false if there is none: then a holds the decision.
func (t *tour) goOn(a *asked) bool {
	t.take(a.result, a.err)
	next := t.next()
	if next == nil {
		a.result, a.err = t.outcome()
		return false
	}
	a.receipt = next
	if a.learns {
		a.stamp = t.limiter.stamp(next)
	}
	return true
}

// onward returns those of asks that go on to another part.
func onward(asks []*asked) (rest []*asked) {
	for _, a := range asks {
		if a.tour != nil && a.tour.goOn(a) {
			rest = append(rest, a)
		}
	}
	return rest
}

// peekParts adds up what the parts of the subject have left: of those that answer.
func (l *Limiter) peekParts(ctx context.Context, p *Policy, subject string) (Result, error) {
	asks := make([]*asked, len(p.parts))
	for i, part := range p.parts {
		asks[i] = &asked{receipt: l.receipt(part, subject, scripts.Peek, 1, 0)}
	}
	l.askOnce(ctx, asks)
	t := l.tour(p, subject, scripts.Peek, 1, 0)
	var remaining int64
	var reset time.Duration
	for _, a := range asks {
		remaining, reset = remaining+a.result.Remaining, max(reset, a.result.ResetAfter)
		t.take(a.result, a.err)
	}
	r, err := t.outcome()
	if t.answered {
		r.Remaining, r.ResetAfter = remaining, reset
	}
	return r, err
}

// resetParts resets all parts of the subject. The error is that of the first that
// could not be.
func (l *Limiter) resetParts(ctx context.Context, p *Policy, subject string) error {
	jobs := make([]cluster.Job, len(p.parts))
	deadline := time.Now().Add(l.timeout(p))
	for i, part := range p.parts {
		call := l.call(part, scripts.Reset, l.key(part, subject))
		jobs[i] = cluster.Job{Call: &call, Deadline: deadline}
	}
	l.backend.DoEach(ctx, jobs)
	var first error
	for i, part := range p.parts {
		l.forget(hotkey.Key{Spec: part.spec, Subject: subject})
		if err := jobs[i].Err; err != nil && first == nil {
			first = l.explain(ctx, err)
		}
	}
	return first
}

// heldParts returns the units of the subject that leases of this process on its
// parts have left.
func (l *Limiter) heldParts(p *Policy, subject string) (held int64) {
	for _, part := range p.parts {
		held += l.held(part, subject)
	}
	return held
}
