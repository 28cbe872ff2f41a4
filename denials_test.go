package shardlimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
)

// What a process knows to be refused is told as Redis told it: who is refused
// again and again does not hear of a shorter wait.
func TestAKnownDenialTellsTheWholeWait(t *testing.T) {
	l := clustered(t, client(t))
	p := policy(t, shardlimit.PerHour(1))
	allow(t, l, p, "user:42")
	first := allow(t, l, p, "user:42")
	for {
		r := allow(t, l, p, "user:42")
		if r.Allowed || r.RetryAfter > time.Hour || r.RetryAfter < first.RetryAfter-time.Minute {
			t.Fatalf("denied after %+v: %+v, want about the same wait", first, r)
		}
		if r.Source == shardlimit.FromDenial {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := l.Wait(ctx, p, "user:42")
	d, ok := errors.AsType[*shardlimit.DeadlineError](err)
	if !ok || d.RetryAfter < time.Minute {
		t.Errorf("Wait for a minute = %v, want a *DeadlineError of about an hour", err)
	}
}

// A client alone asks for all costs, in quick succession, and is told waits by
// Redis and by what is known. It sleeps the last, and passes, each time.
func TestAClientThatSleepsRetryAfterPassesWhateverItsCost(t *testing.T) {
	for name, limits := range kinds(20, 200*time.Millisecond) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, p, seed := clustered(t, client(t)), unleased(limits), rand.Uint64()
			t.Logf("seed %d", seed)
			random, known := rand.New(rand.NewPCG(seed, 0)), 0
			ask := func(cost int64) shardlimit.Result { return result(t)(l.AllowN(t.Context(), p, "user:42", cost)) }
			for slept := 0; slept < 20; {
				cost := 1 + random.Int64N(20)
				r := ask(cost)
				for n := random.IntN(20); n > 0 && !r.Allowed; n-- {
					if random.IntN(4) == 0 {
						ask(1 + random.Int64N(20))
					}
					r = ask(cost)
				}
				if r.Allowed {
					continue
				}
				if r.Source == shardlimit.FromDenial {
					known++
				}
				time.Sleep(r.RetryAfter)
				if got := ask(cost); !got.Allowed {
					t.Fatalf("cost %d: %+v, then, %v later: %+v", cost, r, r.RetryAfter, got)
				}
				slept++
			}
			t.Logf("%d of the waits were known here", known)
		})
	}
}

// One process alone asks for one subject, under two plans, and gives back, resets
// and is refused in all ways there are. Nothing decays meanwhile, so what passes
// is known, whatever the process thinks that it knows.
func TestNoDenialOutlivesWhatComesBack(t *testing.T) {
	const small, large = 100, 150
	for name, limits := range kinds(small, long) {
		if len(limits) > 1 {
			continue // another plan of several limits has several that are larger
		}
		t.Run(name, func(t *testing.T) {
			l, seed := clustered(t, client(t)), rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			more := limits[0]
			more.Rate = large
			if more.Algorithm == shardlimit.GCRA { // what is used counts by the rate it was charged at
				more.Rate = small
			}
			var plans []*shardlimit.Policy
			for _, limit := range []shardlimit.Limit{limits[0], more} {
				plans = append(plans, shardlimit.MustPolicy(shardlimit.PolicyConfig{
					Name: "api", Limits: []shardlimit.Limit{limit}, Leases: shardlimit.LeaseOff,
				}))
			}
			full := policy(t, shardlimit.Per(1, long))
			allow(t, l, full, "full")
			used, kept := int64(0), []shardlimit.Result(nil)
			ask := func(n int, cost int64) {
				if used+cost == plans[n].Limits()[0].Rate {
					cost++ // a bucket's refund is less by what decayed since, so that its edge is not to the unit
				}
				r := result(t)(l.AllowN(t.Context(), plans[n], "user:42", cost))
				if want := used+cost <= plans[n].Limits()[0].Rate; r.Allowed != want {
					t.Fatalf("%d of %d used: %d more: %+v, want allowed: %t", used, plans[n].Limits()[0].Rate, cost, r, want)
				}
				if used += r.Granted; r.Allowed {
					kept = append(kept, r)
				}
			}
			for range 400 {
				n, cost := random.IntN(2), 1+random.Int64N(40)
				switch random.IntN(12) {
				case 0:
					if err := l.Reset(t.Context(), plans[n], "user:42"); err != nil {
						t.Fatal(err)
					}
					used, kept = 0, nil
				case 1, 2:
					if len(kept) > 0 {
						last := len(kept) - 1
						if err := l.Refund(t.Context(), kept[last]); err != nil {
							t.Fatal(err)
						}
						used, kept = used-kept[last].Granted, kept[:last]
					}
				case 3: // what is taken comes back at once
					reqs := []shardlimit.Request{{Policy: plans[n], Subject: "user:42", Cost: cost}, {Policy: full, Subject: "full"}}
					if _, err := l.AllowAll(t.Context(), reqs...); err != nil {
						t.Fatal(err)
					}
				default:
					ask(n, cost)
				}
			}
		})
	}
}

// A process that comes anew to a subject which is asked for far more often than its
// rate gets no lease of it, from the first ask on: what it spent slowly others
// would be refused meanwhile.
func TestASlowLimitIsNotLent(t *testing.T) {
	for _, a := range []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.SlidingWindow, shardlimit.FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			l, p := clustered(t, client(t)), policy(t, shardlimit.PerHour(1000).WithAlgorithm(a))
			for l.Inspect().HotKeys.Counts.Asks < 2 {
				result(t)(l.AllowN(t.Context(), p, "user:42", 10))
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if lent := l.Inspect().HotKeys.Counts.Lent; lent != 0 {
				t.Errorf("%d units were lent, want none", lent)
			}
		})
	}
}

// AllowN(50) of 100 with 60 used is refused; Allow passes.
func TestADenialOfManyLetsFewPass(t *testing.T) {
	l, _ := twoLimiters(t)
	for _, a := range algorithms {
		p := policy(t, shardlimit.Per(100, long).WithAlgorithm(a))
		result(t)(l.AllowN(t.Context(), p, "s", 60))
		for range 2 { // by Redis, then here
			if r := result(t)(l.AllowN(t.Context(), p, "s", 50)); r.Allowed {
				t.Errorf("%s: 50 of 40 passed: %+v", a, r)
			}
		}
		if r := allow(t, l, p, "s"); !r.Allowed || r.Source != shardlimit.FromRedis {
			t.Errorf("%s: 1 of 40: %+v", a, r)
		}
	}
}

// Refused here, refunded or reset on another instance: yes within DenialTTL.
// Refunded or reset here: at once.
func TestADenialEndsOnceUnitsAreBack(t *testing.T) {
	for _, a := range algorithms {
		for _, reset := range []bool{false, true} {
			for _, remote := range []bool{false, true} {
				t.Run(strings.Join([]string{a.String(), word(reset, "reset", "refund"), word(remote, "elsewhere", "here")}, "/"), func(t *testing.T) {
					t.Parallel()
					here, by := twoLimiters(t)
					if !remote {
						by = here
					}
					p := policy(t, shardlimit.Per(1, long).WithAlgorithm(a))
					charged := allow(t, by, p, "s")
					untilDeniedHere(t, here, p, "s")
					told := time.NewTimer(hotkey.DenialTTL)
					giveBack := func() error { return by.Refund(t.Context(), charged) }
					if reset {
						giveBack = func() error { return by.Reset(t.Context(), p, "s") }
					}
					if err := giveBack(); err != nil {
						t.Fatal(err)
					}
					if remote {
						<-told.C
					}
					if r := allow(t, here, p, "s"); !r.Allowed {
						t.Errorf("%+v after it was given back", r)
					}
				})
			}
		}
	}
}

// untilDeniedHere asks, and is refused, until it is without asking Redis: a denial
// may be lost, and is then learnt again.
func untilDeniedHere(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, subject string) {
	t.Helper()
	for range 10_000 {
		switch r := allow(t, l, p, subject); {
		case r.Allowed:
			t.Fatalf("%+v, want it denied", r)
		case r.Source == shardlimit.FromDenial:
			return
		}
	}
	t.Fatal("no denial was known here")
}

func word(yes bool, one, other string) string {
	if yes {
		return one
	}
	return other
}
