package limitertest

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
)

// severalAgree holds policies of several limits against policies of one of them
// each, asked together by AllowAll: the same passes, what remains is the least,
// what is to be waited the longest, and the limit that binds is the first that
// refuses, or else the first of those with the least left. So it is after what
// passed was given back.
func severalAgree(b *backend) {
	for _, mix := range mixes() {
		b.run(mixName(mix), func(b *backend) {
			const seed = 7
			random := rand.New(rand.NewPCG(seed, uint64(len(mix))))
			together, apart := b.policy(mix...), make([]*shardlimit.Policy, len(mix))
			for i, l := range mix {
				apart[i] = b.policy(l)
			}
			for step, at := 0, time.Duration(0); step < 40; step++ {
				at += time.Duration(random.Int64N(1_500_000)) * time.Microsecond
				b.at(at)
				cost := 1 + random.Int64N(3)
				r := b.allow(together, cost)
				results := b.allowApart(apart, cost)
				if got, want := ofLimits(r), b.foretold(apart, results); got != want {
					b.Fatalf("step %d of seed %d, at %v: AllowN(%d)\n got %+v\nwant %+v", step, seed, at, cost, got, want)
				}
				if step%3 > 0 {
					continue
				}
				for _, r := range append(results, r) {
					b.refund(r)
				}
				got, want := ofLimits(b.peek(together)), b.foretold(apart, b.peekApart(apart))
				if got != want {
					b.Fatalf("step %d of seed %d, at %v: given back\n got %+v\nwant %+v", step, seed, at, got, want)
				}
			}
		})
	}
}

// ofLimits returns what r says of the limits.
func ofLimits(r shardlimit.Result) shardlimit.Result {
	return shardlimit.Result{
		Allowed: r.Allowed, Granted: r.Granted, Limit: r.Limit,
		Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter,
	}
}

// allowApart asks policies of one limit each as one.
func (b *backend) allowApart(apart []*shardlimit.Policy, cost int64) []shardlimit.Result {
	b.Helper()
	reqs := make([]shardlimit.Request, len(apart))
	for i, p := range apart {
		reqs[i] = shardlimit.Request{Policy: p, Subject: subject, Cost: cost}
	}
	return b.all(reqs...)
}

func (b *backend) peekApart(apart []*shardlimit.Policy) []shardlimit.Result {
	b.Helper()
	var results []shardlimit.Result
	for _, p := range apart {
		results = append(results, b.peek(p))
	}
	return results
}

// foretold returns what a policy of all the limits must say where those of one
// each said results.
func (b *backend) foretold(apart []*shardlimit.Policy, results []shardlimit.Result) shardlimit.Result {
	b.Helper()
	want := shardlimit.Result{Allowed: true, Granted: results[0].Granted, Remaining: math.MaxInt64}
	refused := false
	for i, state := range b.peekApart(apart) {
		want.Allowed = want.Allowed && results[i].Allowed
		first := !refused && results[i].RetryAfter > 0
		if first || !refused && state.Remaining < want.Remaining {
			want.Limit = apart[i].Limits()[0]
		}
		refused = refused || first
		want.Remaining = min(want.Remaining, state.Remaining)
		want.RetryAfter = max(want.RetryAfter, results[i].RetryAfter)
		want.ResetAfter = max(want.ResetAfter, state.ResetAfter)
	}
	return want
}

// mixes returns limits for a policy: each two algorithms in both orders, and
// all that may stand together. No two of a policy are alike, and none is the
// least all the time.
func mixes() [][]shardlimit.Limit {
	fast := map[shardlimit.Algorithm]shardlimit.Limit{}
	slow := map[shardlimit.Algorithm]shardlimit.Limit{}
	var mixable []shardlimit.Algorithm
	for _, a := range algorithms {
		if a == shardlimit.SlidingLog {
			continue
		}
		mixable = append(mixable, a)
		fast[a] = shardlimit.Per(4, 2*time.Second).WithAlgorithm(a)
		slow[a] = shardlimit.Per(13, 9*time.Second).WithAlgorithm(a)
	}
	var all [][]shardlimit.Limit
	var whole []shardlimit.Limit
	for _, a := range mixable {
		for _, o := range mixable {
			all = append(all, []shardlimit.Limit{fast[a], slow[o]}, []shardlimit.Limit{slow[a], fast[o]})
		}
		whole = append(whole, fast[a], slow[a])
	}
	return append(all, whole)
}

func mixName(mix []shardlimit.Limit) string {
	var names []string
	for _, l := range mix {
		names = append(names, l.String())
	}
	return strings.ReplaceAll(strings.Join(names, ","), " ", "_")
}
