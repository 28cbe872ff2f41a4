package shardlimit

import (
	"slices"

	"github.com/shardlimit/shardlimit/hotkey"
)

// known decides, without asking anyone, a request that this process has units
// for, or knows to be refused. It reports whether it did, and writes no more of r
// than that takes: copies would cost as much as all else.
func (l *Limiter) known(p *Policy, subject string, cost int64, r *Result) bool {
	if !l.local() {
		return false
	}
	var a hotkey.Answer
	if !l.tier.DecideInto(&a, hotkey.Key{Spec: p.spec, Subject: subject}, cost) {
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

// stamp is to be taken before a call is sent that learn is told of.
func (l *Limiter) stamp(r *receipt) hotkey.Stamp {
	if !l.local() {
		return hotkey.Stamp{}
	}
	return l.tier.Stamp(r.key)
}

// learn lets the local tier know how r's request was decided, which was asked
// for after s was taken.
func (l *Limiter) learn(r *receipt, s hotkey.Stamp, decided *Result) {
	if !l.local() {
		return
	}
	cost := r.call.Cost
	if decided.Source == FromRedis && !decided.taken() {
		l.tier.Denied(r.key, s, hotkey.Denial{
			Cost: cost, RetryAfter: decided.RetryAfter, Remaining: decided.Remaining, ResetAfter: decided.ResetAfter,
			Limit: slices.Index(r.policy.config.Limits, decided.Limit),
		})
	}
	l.tier.Observe(r.key, cost)
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
