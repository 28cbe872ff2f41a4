package limitertest

import (
	"errors"
	"time"

	"github.com/shardlimit/shardlimit"
)

// all asks for reqs as one, which must be decided.
func (b *backend) all(reqs ...shardlimit.Request) []shardlimit.Result {
	b.Helper()
	results, err := b.limiter.AllowAll(b.Context(), reqs...)
	if err != nil || len(results) != len(reqs) {
		b.Fatalf("AllowAll = %+v, %v", results, err)
	}
	passed := results[0].Allowed
	for i, r := range results {
		cost := max(reqs[i].Cost, 1)
		if r.Failure != nil || r.Allowed != passed || passed && r.Granted != cost || !passed && r.Granted != 0 || r.Remaining < 0 {
			b.Fatalf("AllowAll: result %d = %+v, which contradicts itself or the others", i, r)
		}
	}
	return results
}

// allPass ends the test unless reqs pass as one, as want says.
func (b *backend) allPass(want bool, reqs ...shardlimit.Request) []shardlimit.Result {
	b.Helper()
	results := b.all(reqs...)
	if results[0].Allowed != want {
		b.Fatalf("AllowAll: allowed = %t, want %t: %+v", results[0].Allowed, want, results)
	}
	return results
}

func allowEach(b *backend) {
	b.each(func(b *backend, k kind) {
		p, q := b.policy(k.limits(5, long)...), b.policy(k.limits(2, long)...)
		outcomes := b.limiter.AllowEach(b.Context(), []shardlimit.Request{
			{Policy: p, Subject: subject, Cost: 3},
			{Policy: p, Subject: subject, Cost: 6},
			{Policy: p, Subject: "", Cost: 1},
			{Subject: subject},
			{Policy: q, Subject: subject, Cost: -1},
			{Policy: q, Subject: subject},
			{Policy: p, Subject: "user:43", Cost: 5},
		}...)
		if len(outcomes) != 7 {
			b.Fatalf("AllowEach of 7 = %d outcomes", len(outcomes))
		}
		for i, want := range map[int]shardlimit.Result{
			0: {Granted: 3, Remaining: 2}, 5: {Granted: 1, Remaining: 1}, 6: {Granted: 5, Remaining: 0},
		} {
			o := outcomes[i]
			if r := b.sane("AllowEach", o.Result, o.Err); r.Granted != want.Granted || r.Remaining != want.Remaining {
				b.Errorf("outcome %d = %+v, want %d granted and %d remaining", i, o, want.Granted, want.Remaining)
			}
		}
		for i, want := range map[int]error{2: shardlimit.ErrNoSubject, 3: shardlimit.ErrNoPolicy} {
			if !errors.Is(outcomes[i].Err, want) {
				b.Errorf("outcome %d: error %v, want %v", i, outcomes[i].Err, want)
			}
		}
		for i, want := range map[int]int64{1: 6, 4: -1} {
			if c, ok := errors.AsType[*shardlimit.CostError](outcomes[i].Err); !ok || c.Cost != want {
				b.Errorf("outcome %d: error %v, want a CostError", i, outcomes[i].Err)
			}
		}
		b.remaining(p, 2)
		b.refund(outcomes[0].Result)
		b.remaining(p, 5)
	})
	if outcomes := b.limiter.AllowEach(b.Context()); len(outcomes) != 0 {
		b.Errorf("AllowEach of none = %+v", outcomes)
	}
}

// allowAll asks for two subjects and policies of each two kinds: the second
// refuses, and the first has lost nothing.
func allowAll(b *backend) {
	b.each(func(b *backend, k kind) {
		for _, other := range kinds {
			p, q := b.policy(k.limits(9, long)...), b.policy(other.limits(4, long)...)
			reqs := []shardlimit.Request{{Policy: p, Subject: subject}, {Policy: q, Subject: "192.0.2.1", Cost: 2}}
			b.allPass(true, reqs...)
			if r := b.allPass(true, reqs...); r[0].Remaining != 7 || r[1].Remaining != 0 {
				b.Errorf("beside %s: %+v, want 7 and 0 remaining", other.name, r)
			}
			refused := b.allPass(false, reqs...)
			if refused[0].RetryAfter != 0 || refused[1].RetryAfter == 0 || refused[0].Remaining != 7 || refused[1].Remaining != 0 {
				b.Errorf("beside %s: %+v, want the second to refuse, and 7 and 0 remaining", other.name, refused)
			}
			for _, r := range refused {
				b.refund(r) // of nothing
			}
			b.remaining(p, 7)
		}
	})
	if results, err := b.limiter.AllowAll(b.Context()); len(results) != 0 || err != nil {
		b.Errorf("AllowAll of none = %+v, %v", results, err)
	}
}

// allOfOneSubject: costs of one policy and subject add up.
func allOfOneSubject(b *backend) {
	b.each(func(b *backend, k kind) {
		p, q := b.policy(k.limits(5, long)...), b.policy(k.limits(5, long)...)
		of := func(p *shardlimit.Policy, cost int64) shardlimit.Request {
			return shardlimit.Request{Policy: p, Subject: subject, Cost: cost}
		}
		results := b.allPass(true, of(p, 2), of(q, 1), of(p, 3))
		b.allPass(false, of(q, 2), of(p, 1), of(q, 1))
		b.remaining(q, 4)
		b.refund(results[2])
		b.remaining(p, 3)
		b.refund(results[0])
		b.refund(results[0])
		b.remaining(p, 5)
		_, err := b.limiter.AllowAll(b.Context(), of(q, 1), of(p, 3), of(p, 3))
		r, ok := errors.AsType[*shardlimit.RequestError](err)
		c, sum := errors.AsType[*shardlimit.CostError](err)
		if !ok || r.Index != 1 || !sum || c.Cost != 6 {
			b.Errorf("AllowAll of 3 and 3 of 5: error %v, want a CostError of request 1 about 6", err)
		}
		b.remaining(p, 5)
		b.remaining(q, 4)
	})
}

// allOfWrongRequests: all faults are named, and nothing is charged.
func allOfWrongRequests(b *backend) {
	p := b.policy(shardlimit.Per(5, long))
	results, err := b.limiter.AllowAll(b.Context(), []shardlimit.Request{
		{Policy: p, Subject: subject},
		{Policy: p, Subject: subject, Cost: 6},
		{Policy: p},
		{Subject: subject},
	}...)
	joined, ok := err.(interface{ Unwrap() []error })
	if results != nil || !ok || len(joined.Unwrap()) != 3 {
		b.Fatalf("AllowAll = %+v, %v; want three faults", results, err)
	}
	for i, err := range joined.Unwrap() {
		r, ok := errors.AsType[*shardlimit.RequestError](err)
		if !ok || r.Index != i+1 {
			b.Errorf("fault %d: %v, want it of request %d", i, err, i+1)
		}
	}
	if !errors.Is(err, shardlimit.ErrNoSubject) || !errors.Is(err, shardlimit.ErrNoPolicy) {
		b.Errorf("AllowAll: error %v, want ErrNoSubject and ErrNoPolicy in it", err)
	}
	b.remaining(p, 5)
}

// allRefund: each result of what passed can be given back by itself.
func allRefund(b *backend) {
	b.each(func(b *backend, k kind) {
		p, q := b.policy(k.limits(5, long)...), b.policy(k.limits(5, long)...)
		results := b.allPass(true,
			shardlimit.Request{Policy: p, Subject: subject, Cost: 2}, shardlimit.Request{Policy: q, Subject: subject, Cost: 4})
		b.refund(results[1])
		b.remaining(p, 3)
		b.remaining(q, 5)
		b.refund(results[0])
		b.remaining(p, 5)
	})
}

// allWait: what AllowAll says to wait passes, and no sooner.
func allWait(b *backend) {
	b.each(func(b *backend, k kind) {
		p, q := b.policy(k.limits(4, 10*time.Second)...), b.policy(k.limits(4, 20*time.Second)...)
		reqs := []shardlimit.Request{{Policy: p, Subject: subject, Cost: 2}, {Policy: q, Subject: subject, Cost: 2}}
		b.allPass(true, reqs...)
		b.allPass(true, reqs...)
		var wait time.Duration
		for _, r := range b.allPass(false, reqs...) {
			wait = max(wait, r.RetryAfter)
		}
		b.at(wait - time.Microsecond)
		b.allPass(false, reqs...)
		b.at(wait)
		b.allPass(true, reqs...)
	})
}
