package shardlimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/cluster"
)

// AllowAll decides about requests as one: all pass and are charged, or none is.
// They may be of any policies and subjects, on any shards. The results are in
// the requests' order.
//
// All go out side by side, in one round trip. Requests of one policy and subject
// are taken together first: their costs add up. Where a member is refused, what
// the others were charged is given back, in a second round trip. Then no result
// is Allowed and no unit Granted, and RetryAfter is above 0 for those that were
// refused alone: the longest is when to ask again. What a limit can hold is not
// promised meanwhile: units that are taken and given back may refuse another
// request in between, which would have passed a moment later. So some may be
// refused too many, but none pass too many.
//
// A member whose shard can't answer counts as its policy's failure mode says:
// FailOpen lets it pass, FailClosed refuses all, FailLocal decides. A member of a
// Shadow policy refuses nothing.
//
// What was charged stays charged, until it decays, where it can't be given back:
// if this process dies between the two round trips, or the shard doesn't answer
// for a second, which Counters.Stranded counts, or if the reply to the charge was
// lost, which Counters.Unknown counts. Nothing is charged twice.
//
// The caller waits no longer than the longest Timeout of the policies, for giving
// back too: that goes on without it, and without ctx. If ctx ends before the
// decision, nothing stays charged either, as far as is said above.
//
// The error is no decision, and nothing stays charged. It joins a *RequestError
// for each fault of the requests, which AllowN would return: then nothing was
// asked. A cost that is too high is told of the first request of its subject. It
// is also a *RequestError if Redis is set up wrongly for one of them.
func (l *Limiter) AllowAll(ctx context.Context, reqs ...Request) ([]Result, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	members, err := l.members(reqs)
	if err != nil {
		return nil, err
	}
	a := &allOrNone{
		limiter: l, members: members, requests: len(reqs),
		decided: make(chan struct{}), settled: make(chan struct{}),
	}
	began := time.Now()
	detached := context.WithoutCancel(ctx)
	if !l.tasks.start(func() { a.run(detached) }) {
		return nil, ErrClosed
	}
	results, err := a.await(ctx)
	for i := range members {
		m := &members[i]
		var final Result
		if err == nil {
			final = m.result
		}
		l.tell(ctx, began, m.receipt.policy, m.receipt.call.Cost, &final, err)
	}
	return results, err
}

// allOrNone is one AllowAll under way: in a goroutine of its own, so that what it
// takes is not lost if its caller leaves.
type allOrNone struct {
	limiter  *Limiter
	members  []member
	requests int

	claimed atomic.Bool   // by the goroutine, for the caller; or by a caller who leaves
	decided chan struct{} // closed once results and err are there
	settled chan struct{} // closed once what must be given back was

	results []Result
	err     error
}

// run takes, decides, and gives back.
func (a *allOrNone) run(ctx context.Context) {
	defer close(a.settled)
	asks := make([]*asked, len(a.members))
	for i := range a.members {
		asks[i] = a.members[i].ask
	}
	a.limiter.askEach(ctx, asks)
	for i, got := range asks {
		m := &a.members[i]
		m.result, m.err, m.charge = got.result, got.err, got.result.receipt
	}
	passed := a.decide()
	stays := a.claimed.CompareAndSwap(false, true) && passed
	close(a.decided)
	if !stays {
		a.giveBack(ctx)
	}
}

// await returns what was decided, once it is done and given back, or as soon as
// the caller must not wait any more.
func (a *allOrNone) await(ctx context.Context) ([]Result, error) {
	late := time.NewTimer(a.timeout())
	defer late.Stop()
	select {
	case <-a.settled:
	case <-late.C:
		<-a.decided // its calls have the same deadlines
	case <-ctx.Done():
		if a.claimed.CompareAndSwap(false, true) {
			return nil, ended(ctx)
		}
		<-a.decided
	}
	return a.results, a.err
}

// timeout returns the longest of the members.
func (a *allOrNone) timeout() (longest time.Duration) {
	for i := range a.members {
		longest = max(longest, a.limiter.timeout(a.members[i].receipt.policy))
	}
	return longest
}

// decide reports whether all members pass, and sets the results or the error.
func (a *allOrNone) decide() bool {
	passed := true
	for i := range a.members {
		m := &a.members[i]
		passed = passed && m.err == nil && m.result.Allowed
		if m.err != nil && a.err == nil {
			a.err = &RequestError{Index: m.requests[0], Err: m.err}
		}
	}
	if a.err != nil {
		return false
	}
	a.results = make([]Result, a.requests)
	for i := range a.members {
		m := &a.members[i]
		m.result = m.whole(passed)
		for n, at := range m.requests {
			a.results[at] = m.part(n)
		}
	}
	return passed
}

// givingBack is how long a shard is asked to take units back: longer than a
// caller waits, as by then nobody does.
const givingBack = time.Second

// giveBack gives back what the members were charged.
func (a *allOrNone) giveBack(ctx context.Context) {
	l, deadline := a.limiter, time.Now().Add(givingBack)
	var jobs []cluster.Job
	var charges []*receipt
	for i := range a.members {
		c := a.members[i].charge
		switch {
		case c == nil:
		case c.share:
			l.giveShare(c)
		default:
			jobs = append(jobs, cluster.Job{Call: c.give(), Deadline: deadline})
			charges = append(charges, c)
		}
	}
	l.backend.DoEach(ctx, jobs)
	for i, c := range charges {
		if jobs[i].Err != nil {
			l.counters.stranded.Add(c.granted)
		}
		l.forget(c.key)
	}
}
