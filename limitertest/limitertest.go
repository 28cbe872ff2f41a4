// Package limitertest checks that a limiter keeps its promises: the one list
// that the store in memory, Redis and whatever stands before them all pass.
//
// What is expected follows from each algorithm's definition, not from what some
// implementation answers.
package limitertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Limiter is what is checked; a *shardlimit.Limiter is one.
type Limiter interface {
	Allow(ctx context.Context, p *shardlimit.Policy, subject string) (shardlimit.Result, error)
	AllowN(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error)
	AllowAtMost(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error)
	AllowAll(ctx context.Context, reqs ...shardlimit.Request) ([]shardlimit.Result, error)
	AllowEach(ctx context.Context, reqs ...shardlimit.Request) []shardlimit.Outcome
	Charge(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error)
	Peek(ctx context.Context, p *shardlimit.Policy, subject string) (shardlimit.Result, error)
	Refund(ctx context.Context, r shardlimit.Result) error
	Reset(ctx context.Context, p *shardlimit.Policy, subject string) error
}

// NewFunc returns a Limiter that has decided nothing yet. From set's call on it
// decides as if the time were now; a nil set says that it can't, and promises
// about exact times are skipped.
type NewFunc func(t *testing.T) (l Limiter, set func(now time.Time))

// Run checks each promise in a subtest of its own, with a Limiter of its own.
func Run(t *testing.T, newLimiter NewFunc) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			b := newBackend(t, newLimiter)
			if b.set == nil && !p.anytime {
				t.Skip("needs a clock that can be set")
			}
			p.check(b)
		})
	}
}

// promise is one subtest.
type promise struct {
	name    string
	check   func(b *backend)
	anytime bool // holds by a real clock too
}

var promises = []promise{
	{name: "sliding_log 3 per 60 s", check: slidingLogTimes},
	{name: "token_bucket burst 5, 2 per s", check: tokenBucketTimes},
	{name: "fixed_window 2 per 10 s at second 8", check: fixedWindowTimes},
	{name: "sliding_window half-way through the next", check: slidingWindowTimes},
	{name: "reset-after says when nothing is used", check: resetAfter},
	{name: "30 calls in the same instant", check: sameInstant},
	{name: "20 sliding_log calls in one microsecond", check: sameMicrosecond},
	{name: "1 per s asked every 10 ms for 30 s", check: noFractionLost},
	{name: "extreme rates in the long run", check: longRun},
	{name: "wait exactly RetryAfter", check: exactWait},

	{name: "64 goroutines at one key", check: oneKey, anytime: true},
	{name: "odd subjects have counters of their own", check: oddSubjects, anytime: true},
	{name: "a cost above the limit is an error and charges nothing", check: costAboveLimit, anytime: true},
	{name: "a denied call charges nothing", check: deniedChargesNothing, anytime: true},
	{name: "a wrong call is an error and charges nothing", check: wrongCalls, anytime: true},

	{name: "several limits, all or none", check: allOrNone},
	{name: "the limit that binds", check: bindingLimit, anytime: true},
	{name: "several limits agree with each by itself", check: severalAgree},
	{name: "policy raised while denied", check: raised, anytime: true},
	{name: "policy lowered with 7 used", check: lowered, anytime: true},
	{name: "policy changed to another algorithm or period", check: reshaped, anytime: true},

	{name: "clock steps back 5 s", check: clockBack},
	{name: "clock steps forward 1 h and back again", check: clockForwardAndBack},
	{name: "clock steps back over a window's edge", check: clockBackOverEdge},

	{name: "AllowEach decides about each by itself", check: allowEach, anytime: true},
	{name: "AllowAll, all or none", check: allowAll, anytime: true},
	{name: "AllowAll adds up what is for one subject", check: allOfOneSubject},
	{name: "AllowAll of wrong requests charges nothing", check: allOfWrongRequests, anytime: true},
	{name: "AllowAll says how long to wait", check: allWait},
	{name: "Refund of each result of AllowAll", check: allRefund, anytime: true},

	{name: "AllowAtMost takes what fits", check: allowAtMost, anytime: true},
	{name: "AllowAtMost waits for one unit", check: allowAtMostWait},
	{name: "Charge goes into debt", check: charge},
	{name: "Charge of gcra is refused", check: chargeGCRA, anytime: true},
	{name: "Charge is bounded", check: chargeBounded, anytime: true},
	{name: "Peek charges nothing", check: peek, anytime: true},
	{name: "Peek foretells what is allowed", check: peekForetells},

	{name: "Refund gives all back at once", check: refund, anytime: true},
	{name: "Refund works once", check: refundOnce, anytime: true},
	{name: "Refund of nothing does nothing", check: refundNothing, anytime: true},
	{name: "Refund of a part, and of a debt", check: refundPart, anytime: true},
	{name: "Refund gives less what has decayed", check: refundDecayed},
	{name: "Refund gives into the charge's own window", check: refundWindow},
	{name: "Refund gives into the window before an edge", check: refundBehindEdge},
	{name: "Refund removes the charge's own entries", check: refundLog},
	{name: "Reset forgets what was used", check: reset, anytime: true},
	{name: "Reset fences receipts", check: resetFences},
}

// start is where the clock of every check begins: a window of any period that
// divides a day starts then.
var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// subject is whom a check asks for unless it says otherwise.
const subject = "user:42"

// backend is a Limiter under check. Its methods end the test where a call fails
// or its result contradicts itself.
type backend struct {
	*testing.T
	limiter  Limiter
	set      func(time.Time)
	policies int
}

func newBackend(t *testing.T, newLimiter NewFunc) *backend {
	b := &backend{T: t}
	b.limiter, b.set = newLimiter(t)
	if b.set != nil {
		b.at(0)
	}
	return b
}

// run runs check in a subtest on the same Limiter, its clock back at start.
func (b *backend) run(name string, check func(b *backend)) {
	b.Run(name, func(t *testing.T) {
		sub := *b
		sub.T = t
		sub.at(0)
		check(&sub)
		b.policies = sub.policies
	})
}

// at sets the clock to d after start, if it can be set.
func (b *backend) at(d time.Duration) {
	if b.set != nil {
		b.set(start.Add(d))
	}
}

// policy returns a policy that shares nothing with those before it.
func (b *backend) policy(limits ...shardlimit.Limit) *shardlimit.Policy {
	b.Helper()
	b.policies++
	p, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: fmt.Sprint("p", b.policies), Limits: limits})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// with returns p with other limits.
func (b *backend) with(p *shardlimit.Policy, limits ...shardlimit.Limit) *shardlimit.Policy {
	b.Helper()
	p, err := p.WithLimits(limits...)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func (b *backend) allow(p *shardlimit.Policy, cost int64) shardlimit.Result {
	b.Helper()
	if cost == 1 {
		r, err := b.limiter.Allow(b.Context(), p, subject)
		return b.sane("Allow", r, err)
	}
	r, err := b.limiter.AllowN(b.Context(), p, subject, cost)
	return b.sane(fmt.Sprintf("AllowN(%d)", cost), r, err)
}

func (b *backend) allowAtMost(p *shardlimit.Policy, cost int64) shardlimit.Result {
	b.Helper()
	r, err := b.limiter.AllowAtMost(b.Context(), p, subject, cost)
	return b.sane(fmt.Sprintf("AllowAtMost(%d)", cost), r, err)
}

func (b *backend) charge(p *shardlimit.Policy, cost int64) shardlimit.Result {
	b.Helper()
	r, err := b.limiter.Charge(b.Context(), p, subject, cost)
	if err != nil || !r.Allowed || r.Granted != cost || r.Remaining < 0 || r.RetryAfter < 0 || r.ResetAfter <= 0 {
		b.Fatalf("Charge(%d) = %+v, %v", cost, r, err)
	}
	return r
}

func (b *backend) peek(p *shardlimit.Policy) shardlimit.Result {
	b.Helper()
	r, err := b.limiter.Peek(b.Context(), p, subject)
	if err != nil || r.Granted != 0 || r.Allowed != (r.RetryAfter == 0) || r.Allowed != (r.Remaining > 0) || r.ResetAfter < 0 {
		b.Fatalf("Peek = %+v, %v", r, err)
	}
	return r
}

func (b *backend) refund(r shardlimit.Result) {
	b.Helper()
	if err := b.limiter.Refund(b.Context(), r); err != nil {
		b.Fatalf("Refund = %v", err)
	}
}

func (b *backend) reset(p *shardlimit.Policy) {
	b.Helper()
	if err := b.limiter.Reset(b.Context(), p, subject); err != nil {
		b.Fatalf("Reset = %v", err)
	}
}

// sane returns r if it is a decision that doesn't contradict itself.
func (b *backend) sane(call string, r shardlimit.Result, err error) shardlimit.Result {
	b.Helper()
	if err != nil || r.Failure != nil {
		b.Fatalf("%s = %+v, %v", call, r, err)
	}
	if r.Remaining < 0 || r.RetryAfter < 0 || r.ResetAfter < 0 ||
		r.Allowed != (r.Granted > 0) || r.Allowed != (r.RetryAfter == 0) {
		b.Fatalf("%s = %+v, which contradicts itself", call, r)
	}
	return r
}

// allowed ends the test unless a request of cost passes, as want says.
func (b *backend) allowed(p *shardlimit.Policy, cost int64, want bool) shardlimit.Result {
	b.Helper()
	r := b.allow(p, cost)
	if r.Allowed != want {
		b.Fatalf("a request of %d: allowed = %t, want %t: %+v", cost, r.Allowed, want, r)
	}
	return r
}

// remaining ends the test unless want units are left.
func (b *backend) remaining(p *shardlimit.Policy, want int64) {
	b.Helper()
	if r := b.peek(p); r.Remaining != want {
		b.Fatalf("%d units remain, want %d: %+v", r.Remaining, want, r)
	}
}

// step is a request at a time, and what it must meet.
type step struct {
	at        time.Duration
	allowed   bool
	remaining int64
	retry     time.Duration
}

// steps asks for one unit at each step.
func (b *backend) steps(p *shardlimit.Policy, steps []step) {
	b.Helper()
	for i, s := range steps {
		b.at(s.at)
		r := b.allow(p, 1)
		if got := (step{s.at, r.Allowed, r.Remaining, r.RetryAfter}); got != s {
			b.Fatalf("step %d: got %+v, want %+v", i, got, s)
		}
	}
}

// kind is a way to write a limit of some units per period.
type kind struct {
	name   string
	limits func(rate int64, period time.Duration) []shardlimit.Limit
}

// lone returns the kind of one limit by itself.
func lone(a shardlimit.Algorithm) kind {
	return kind{a.String(), func(rate int64, period time.Duration) []shardlimit.Limit {
		return []shardlimit.Limit{shardlimit.Per(rate, period).WithAlgorithm(a)}
	}}
}

var algorithms = []shardlimit.Algorithm{
	shardlimit.TokenBucket, shardlimit.GCRA, shardlimit.SlidingWindow, shardlimit.SlidingLog, shardlimit.FixedWindow,
}

// kinds are the five algorithms, and policies of several limits, without gcra
// and with it.
var kinds = []kind{
	lone(shardlimit.TokenBucket),
	lone(shardlimit.GCRA),
	lone(shardlimit.SlidingWindow),
	lone(shardlimit.SlidingLog),
	lone(shardlimit.FixedWindow),
	several("several", shardlimit.TokenBucket, shardlimit.SlidingWindow, shardlimit.FixedWindow),
	several("several_gcra", shardlimit.GCRA, shardlimit.FixedWindow),
}

// several returns the kind of several limits that hold together.
func several(name string, algorithms ...shardlimit.Algorithm) kind {
	return kind{name, func(rate int64, period time.Duration) []shardlimit.Limit {
		var limits []shardlimit.Limit
		for _, a := range algorithms {
			limits = append(limits, shardlimit.Per(rate, period).WithAlgorithm(a))
		}
		return limits
	}}
}

// each runs check in a subtest for each kind but those named.
func (b *backend) each(check func(b *backend, k kind), but ...string) {
	for _, k := range kinds {
		if !slices.Contains(but, k.name) {
			b.run(k.name, func(b *backend) { check(b, k) })
		}
	}
}
