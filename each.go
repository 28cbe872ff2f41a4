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
	asks, of, began := make([]*asked, 0, len(reqs)), make([]int, 0, len(reqs)), time.Now()
	for i := range reqs {
		if a := l.decideOrTake(ctx, &reqs[i], &outcomes[i]); a != nil {
			a.learns, a.stamp = true, l.stamp(a.receipt)
			asks, of = append(asks, a), append(of, i)
		}
	}
	l.askEach(ctx, asks)
	for n, a := range asks {
		outcomes[of[n]] = Outcome{a.result, a.err}
		l.tell(ctx, began, a.receipt.policy, a.receipt.call.Cost, &a.result, a.err)
	}
}

// decideOrTake decides about q by itself and by what this process knows, or
// returns the call that is to decide.
func (l *Limiter) decideOrTake(ctx context.Context, q *Request, o *Outcome) *asked {
	if o.Err = cmp.Or(q.check(), l.ready(ctx)); o.Err != nil {
		return nil
	}
	a := l.knownOrTaking(q.Policy, q.Subject, q.cost(), &o.Result)
	if a == nil {
		l.tell(ctx, time.Time{}, q.Policy, q.cost(), &o.Result, nil)
	}
	return a
}

// knownOrTaking writes what this process knows of a request, or returns a call
// that is to take its units.
func (l *Limiter) knownOrTaking(p *Policy, subject string, cost int64, r *Result) *asked {
	switch {
	case p.parts != nil:
		return l.knownOrTour(p, subject, cost, r)
	case l.known(p, subject, cost, r):
		return nil
	default:
		return l.taking(p, subject, cost)
	}
}
