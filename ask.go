package shardlimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// decide asks for count requests of cost units each, and tells of it.
func (l *Limiter) decide(ctx context.Context, p *Policy, subject string, op scripts.Op, cost, count int64) (Result, error) {
	began := l.begin()
	result, err := l.ask(ctx, p, subject, op, cost, count)
	if op != scripts.Peek {
		l.tell(ctx, began, p, cost*count, &result, err)
	}
	return result, err
}

// ask asks for count requests of cost units each, of a subject without parts past
// what this process knows.
func (l *Limiter) ask(ctx context.Context, p *Policy, subject string, op scripts.Op, cost, count int64) (Result, error) {
	if p.parts != nil {
		return l.askParts(ctx, p, subject, op, cost, count)
	}
	return l.run(ctx, l.receipt(p, subject, op, cost, count))
}

// run makes r's call: for one request together with others that are like it.
func (l *Limiter) run(ctx context.Context, r *receipt) (Result, error) {
	if l.flights != nil && r.call.Op == scripts.Take && r.call.Count == 1 {
		return l.runTogether(ctx, r)
	}
	reply, err := l.do(ctx, l.within(r), r.named())
	return l.answer(r, reply, err)
}

// begin returns when a decision begins, if anybody wants to know how long it
// takes, and else the zero time.
func (l *Limiter) begin() time.Time {
	if l.config.Observer.Decided == nil {
		return time.Time{}
	}
	return time.Now()
}

// tell counts a decision and tells of it.
func (l *Limiter) tell(ctx context.Context, began time.Time, p *Policy, cost int64, result *Result, err error) {
	d := Decision{Policy: p.config.Name, Cost: cost, Result: *result, Err: err}
	if !began.IsZero() {
		d.Took = time.Since(began)
	}
	l.decided(ctx, &d)
}

// runTogether makes r's call for all that are like it, and learns from the answer.
func (l *Limiter) runTogether(ctx context.Context, r *receipt) (Result, error) {
	stamp := l.stamp(r)
	reply, err := l.fly(ctx, r)
	result, err := l.answer(r, reply, err)
	l.learn(r, stamp, &result)
	return result, err
}

// receipt returns a receipt whose call was not made yet, and has no key: of those
// who wait for a flight only one needs it.
func (l *Limiter) receipt(p *Policy, subject string, op scripts.Op, cost, count int64) *receipt {
	r := &receipt{
		limiter: l, policy: p, key: hotkey.Key{Spec: p.spec, Subject: subject},
		call: l.call(p, op, ""),
	}
	r.call.Cost, r.call.Count = cost, count
	if p.logs() {
		r.nonce = rand.Uint64()
		r.call.Nonce = r.nonce
	}
	return r
}

// answer returns the decision about r's call, to which there was a reply or,
// as do returns it, an error.
func (l *Limiter) answer(r *receipt, reply scripts.Reply, err error) (Result, error) {
	down, ok := errors.AsType[*UnavailableError](err)
	switch {
	case ok:
		return r.shadow(l.fallback(r, down)), nil
	case err != nil && r.policy.config.Shadow && isMisconfigured(err):
		return r.shadow(Result{Limit: r.policy.config.Limits[0], Source: FromFallback, Failure: err}), nil
	case err != nil:
		return Result{}, err
	default:
		return r.shadow(r.take(reply, l.source)), nil
	}
}

// key returns the key that holds what the subject has used under the policy.
func (l *Limiter) key(p *Policy, subject string) string {
	if len(l.config.SubjectKey) > 0 {
		subject = keys.Mask(l.config.SubjectKey, subject)
	}
	if p.part > 0 {
		return keys.ForPart(l.config.Prefix, subject, p.config.Name, p.shape, p.part-1, p.config.Parts)
	}
	return keys.For(l.config.Prefix, subject, p.config.Name, p.shape)
}

// call returns a call of the policy's plan.
func (l *Limiter) call(p *Policy, op scripts.Op, key string) scripts.Call {
	call := scripts.Call{Plan: p.plan, Op: op, Key: key}
	if l.clock != nil {
		call.Clock = l.clock()
	}
	return call
}

// do runs a call within a time. Its errors are the caller's.
func (l *Limiter) do(ctx context.Context, within time.Duration, call *scripts.Call) (scripts.Reply, error) {
	reply, err := l.send(ctx, within, call)
	if err != nil {
		return scripts.Reply{}, l.explain(ctx, err)
	}
	return reply, nil
}

// send runs a call within a time. Its errors are the backend's.
func (l *Limiter) send(ctx context.Context, within time.Duration, call *scripts.Call) (scripts.Reply, error) {
	return l.backend.DoUntil(ctx, time.Now().Add(within), call)
}

// within returns how long r's call may take.
func (l *Limiter) within(r *receipt) time.Duration {
	if r.left > 0 {
		return r.left
	}
	return l.timeout(r.policy)
}

func (l *Limiter) timeout(p *Policy) time.Duration {
	if p.config.Timeout > 0 {
		return p.config.Timeout
	}
	return l.config.Timeout
}
