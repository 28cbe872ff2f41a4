package shardlimit

import (
	"slices"
	"time"
	"unsafe"

	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// known decides, without asking anyone, a request that this process has units
// for, or knows to be refused. It reports whether it did, and writes no more of r
// than that takes: copies would cost as much as all else.
func (l *Limiter) known(p *Policy, subject string, cost int64, r *Result) bool {
	if !l.local() {
		return false
	}
	var a hotkey.Answer
	if !l.tier.Decide(&a, hotkey.Key{Spec: p.spec, Subject: subject}, cost) {
		return false
	}
	r.Allowed, r.Limit, r.Source = a.Allowed, p.config.Limits[a.Limit], FromDenial
	r.Remaining, r.RetryAfter, r.ResetAfter = a.Remaining, a.RetryAfter, a.ResetAfter
	if a.Source == hotkey.FromLease {
		r.Source, r.Granted, r.spend = FromLease, cost, a.Spend
	}
	if p.config.Shadow {
		*r = p.shadowed(*r, cost)
	}
	return true
}

// stamp is to be taken before a call is sent that learn is to be told of.
func (l *Limiter) stamp(r *receipt) hotkey.Stamp {
	if !l.local() {
		return hotkey.Stamp{}
	}
	return l.tier.Stamp(r.key)
}

// told lets the local tier know what came of a call for r's key that was sent
// after s was taken: the reply, or an error of the backend. What the same call
// refused is learnt under the Stamp that it returns.
func (l *Limiter) told(r *receipt, s hotkey.Stamp, reply *scripts.Reply, err error) hotkey.Stamp {
	if l.local() && (err == nil && reply.Granted > 0 || err != nil && mayHaveRun(err)) {
		return l.tier.Passed(r.key, s)
	}
	return s
}

// learn is told, and of what call refused, which was r's or one for several.
func (l *Limiter) learn(r *receipt, s hotkey.Stamp, call *scripts.Call, reply *scripts.Reply, err error) {
	s = l.told(r, s, reply, err)
	if l.local() && err == nil && reply.Granted < call.Count {
		l.tier.Denied(r.key, s, r.policy.denial(call, reply))
	}
}

// observe lets the local tier know that r's request went to the backend.
func (l *Limiter) observe(r *receipt) {
	if l.local() {
		l.tier.Observe(r.key, r.call.Cost)
	}
}

// denial returns what reply says of a request that call asked for, and which was
// refused.
func (p *Policy) denial(call *scripts.Call, reply *scripts.Reply) hotkey.Denial {
	r := p.state(call.Plan, reply, call.Cost)
	d := hotkey.Denial{
		Cost: call.Cost, RetryAfter: r.RetryAfter, Remaining: r.Remaining, ResetAfter: r.ResetAfter,
		Limit: slices.Index(p.config.Limits, r.Limit),
	}
	if !p.logs() {
		d.Waits = &waits{policy: p, plan: call.Plan, reply: *reply}
	}
	return d
}

// waits is a reply that tells the wait for any cost. A log's doesn't: only the
// shard sees its entries.
type waits struct {
	policy *Policy
	plan   *scripts.Plan
	reply  scripts.Reply
}

// Wait returns the index of the limit that refuses cost units, and their wait.
func (w *waits) Wait(cost int64) (limit int, wait time.Duration) {
	r := w.policy.state(w.plan, &w.reply, cost)
	return slices.Index(w.policy.config.Limits, r.Limit), r.RetryAfter
}

// Bytes returns what w takes.
func (w *waits) Bytes() int64 {
	others := len(w.plan.Limits()) - 1
	return int64(unsafe.Sizeof(*w)) + int64(others)*int64(unsafe.Sizeof(rule.State{}))
}

// local reports whether this process decides what it can. By a clock of a test's
// own it knows nothing: what is known ends by the real one.
func (l *Limiter) local() bool { return l.tier != nil && l.clock == nil }

// forget ends what this process knows to be refused of the key, as units came
// back.
func (l *Limiter) forget(key hotkey.Key) {
	if l.tier != nil {
		l.tier.Forget(key)
	}
}

// held returns the units of the subject that a lease of this process has left.
func (l *Limiter) held(p *Policy, subject string) int64 {
	switch {
	case l.tier == nil:
		return 0
	case p.parts != nil:
		return l.heldParts(p, subject)
	}
	return l.tier.Left(hotkey.Key{Spec: p.spec, Subject: subject})
}
