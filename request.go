package shardlimit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cluster"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/scripts"
)

// Request is one request among several.
type Request struct {
	Policy  *Policy
	Subject string
	Cost    int64 // units; 0 means 1
}

// RequestError says which request of AllowAll is at fault.
type RequestError struct {
	Index int // of the request, from 0
	Err   error
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("shardlimit: request %d: %s", e.Index, strings.TrimPrefix(e.Err.Error(), "shardlimit: "))
}

// Unwrap returns the fault: what AllowN returns for such a request.
func (e *RequestError) Unwrap() error { return e.Err }

// cost returns the units that q is for.
func (q *Request) cost() int64 {
	if q.Cost == 0 {
		return 1
	}
	return q.Cost
}

// check returns why q can't be asked, if so.
func (q *Request) check() error {
	switch {
	case !q.Policy.valid():
		return ErrNoPolicy
	case q.Subject == "":
		return ErrNoSubject
	default:
		return q.Policy.checkCost(q.cost())
	}
}

// asked is a call that goes out beside others, and the decision about it.
type asked struct {
	receipt *receipt // of the call, whatever comes of it
	tour    *tour    // over the parts of its subject; nil: it has none
	learns  bool     // the local tier is told of the answer
	stamp   hotkey.Stamp
	result  Result
	err     error
}

// taking returns a call that takes cost units, past what this process knows.
func (l *Limiter) taking(p *Policy, subject string, cost int64) *asked {
	if p.parts == nil {
		return &asked{receipt: l.receipt(p, subject, scripts.Take, cost, 1)}
	}
	t := l.tour(p, subject, scripts.Take, cost, 1)
	return &asked{receipt: t.next(), tour: &t}
}

// askEach asks side by side: no call waits for another. Those that go on to
// another part do so together. Nothing is told of it.
func (l *Limiter) askEach(ctx context.Context, asks []*asked) {
	for ; len(asks) > 0; asks = onward(asks) {
		l.askOnce(ctx, asks)
	}
}

// askOnce makes each call, all in one batch.
func (l *Limiter) askOnce(ctx context.Context, asks []*asked) {
	jobs, now := make([]cluster.Job, len(asks)), time.Now()
	for i := range asks {
		r := asks[i].receipt
		jobs[i] = cluster.Job{Call: r.named(), Deadline: now.Add(l.within(r))}
	}
	l.backend.DoEach(ctx, jobs)
	for i := range asks {
		a, err := asks[i], jobs[i].Err
		if err != nil {
			err = l.explain(ctx, err)
		}
		a.result, a.err = l.answer(a.receipt, jobs[i].Reply, err)
		if a.learns {
			l.learn(a.receipt, a.stamp, &a.result)
		}
	}
}
