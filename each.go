package shardlimit

import (
	"cmp"
	"context"
	"time"
)

// Outcome is what came of one request of AllowEach: as AllowN returns it.
type Outcome struct {
	Result
	Err error
}

// together is how many requests of an AllowEach go out at once.
const together = 1024

// AllowEach decides about each request by itself, as AllowN does, and returns
// the outcomes in the requests' order. What is wrong with one is its own
// Outcome's Err, and hurts no other.
//
// The requests go out side by side, 1,024 at once, those for one shard in one
// batch: one round trip as long as they fit into the pipelines that may be under
// way to it. Whether the earlier of two requests for one subject goes first is
// not said.
func (l *Limiter) AllowEach(ctx context.Context, reqs ...Request) []Outcome {
	outcomes := make([]Outcome, len(reqs))
	for first := 0; first < len(reqs); first += together {
		last := min(first+together, len(reqs))
		l.allowEach(ctx, reqs[first:last], outcomes[first:last])
	}
	return outcomes
}

func (l *Limiter) allowEach(ctx context.Context, reqs []Request, outcomes []Outcome) {
	asks, of, began := make([]asked, 0, len(reqs)), make([]int, 0, len(reqs)), time.Now()
	for i := range reqs {
		if r := l.decideOrTake(ctx, &reqs[i], &outcomes[i]); r != nil {
			asks, of = append(asks, asked{receipt: r, stamp: l.stamp(r)}), append(of, i)
		}
	}
	l.askEach(ctx, asks)
	for n := range asks {
		a := &asks[n]
		outcomes[of[n]] = Outcome{a.result, a.err}
		l.learn(a.receipt, a.stamp, &a.result)
		l.tell(ctx, a.receipt, a.result, a.err, began)
	}
}

// decideOrTake decides about q by itself and by what this process knows, or
// returns the receipt of a call that is to decide.
func (l *Limiter) decideOrTake(ctx context.Context, q *Request, o *Outcome) *receipt {
	if o.Err = cmp.Or(q.check(), l.ready(ctx)); o.Err != nil {
		return nil
	}
	if r, ok := l.known(q.Policy, q.Subject, q.cost()); ok {
		o.Result = r
		l.decided(ctx, Decision{Policy: q.Policy.config.Name, Cost: q.cost(), Result: r})
		return nil
	}
	return l.taking(q.Policy, q.Subject, q.cost())
}
