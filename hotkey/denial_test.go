package hotkey

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// onBoth runs a test for a key in the cache, and for one that has an entry.
func onBoth(t *testing.T, test func(t *testing.T, tier *Tier, k Key)) {
	for _, name := range []string{"cold", "hot"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tier := startTier(t, &lender{}, Config{})
				k := Key{Spec: &Spec{Policy: 1, Version: 1, NoLease: Off}, Subject: "a"}
				if name == "hot" {
					heatUp(tier, k)
				}
				test(t, tier, k)
			})
		})
	}
}

// denied tells of a denial, and has the cache take it in.
func (t *Tier) learn(k Key, s Stamp, d Denial) {
	t.Denied(k, s, d)
	t.tail.cache.Wait()
}

// slowly waits 10 ms a unit, and is refused by limit 2 from 100 units on.
type slowly struct{}

func (slowly) Wait(cost int64) (limit int, wait time.Duration) {
	return int(1 + min(cost/100, 1)), time.Duration(cost) * 10 * time.Millisecond
}

func (slowly) Bytes() int64 { return 0 }

// knows checks what is known of requests of each cost: the wait, 0 of none.
func (t *Tier) knows(test *testing.T, k Key, waits map[int64]time.Duration) {
	test.Helper()
	for cost, want := range waits {
		got, known := t.decided(k, cost)
		if known != (want > 0) || got.Allowed || got.RetryAfter != want {
			test.Errorf("%d: got %+v, %t; want a wait of %v", cost, got, known, want)
		}
	}
}

// More units wait longer, maybe for another limit.
func TestADenialTellsMoreUnitsTheirOwnWait(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		d := Denial{Cost: 50, RetryAfter: 500 * time.Millisecond, Limit: 1, Remaining: 40, ResetAfter: time.Second, Waits: slowly{}}
		tier.learn(k, tier.Stamp(k), d)
		time.Sleep(100 * time.Millisecond)
		if got, known := tier.decided(k, 49); known {
			t.Errorf("49: got %+v, want not known", got)
		}
		for cost, want := range map[int64]Answer{
			50:  {Limit: 1, RetryAfter: 400 * time.Millisecond},
			51:  {Limit: 1, RetryAfter: 410 * time.Millisecond},
			200: {Limit: 2, RetryAfter: 1900 * time.Millisecond},
		} {
			want.Source, want.Remaining, want.ResetAfter = FromDenial, 40, 900*time.Millisecond
			if got, known := tier.decided(k, cost); !known || got != want {
				t.Errorf("%d: got %+v, %t; want %+v", cost, got, known, want)
			}
		}
	})
}

// Where the wait of more units isn't known, they ask for themselves, and a few
// costs are known side by side: the latest.
func TestCostsAreKnownSideBySide(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		for cost := range int64(besides + 2) {
			tier.learn(k, tier.Stamp(k), Denial{Cost: cost + 1, RetryAfter: time.Duration(cost+1) * 20 * time.Millisecond})
		}
		const ms = time.Millisecond
		tier.knows(t, k, map[int64]time.Duration{1: 0, 2: 40 * ms, 3: 60 * ms, 4: 80 * ms, 5: 100 * ms, 6: 0})
		time.Sleep(50 * ms)
		tier.learn(k, tier.Stamp(k), Denial{Cost: 7, RetryAfter: 90 * ms}) // the first is over
		tier.knows(t, k, map[int64]time.Duration{2: 0, 3: 10 * ms, 4: 30 * ms, 5: 50 * ms, 7: 90 * ms})
		tier.learn(k, tier.Stamp(k), Denial{Cost: 4, RetryAfter: 200 * ms})
		tier.knows(t, k, map[int64]time.Duration{3: 10 * ms, 4: 200 * ms, 5: 50 * ms, 7: 90 * ms})
	})
}

// The denial of many units outlasts that of few, which tells their wait meanwhile.
func TestADenialOfManyOutlastsThatOfFew(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		const ms = time.Millisecond
		tier.learn(k, tier.Stamp(k), Denial{Cost: 10, RetryAfter: 100 * ms, Waits: slowly{}})
		tier.learn(k, tier.Stamp(k), Denial{Cost: 2, RetryAfter: 20 * ms, Waits: slowly{}})
		tier.knows(t, k, map[int64]time.Duration{1: 0, 2: 20 * ms, 9: 90 * ms, 10: 100 * ms, 12: 120 * ms})
		time.Sleep(20 * ms)
		tier.knows(t, k, map[int64]time.Duration{2: 0, 9: 0, 10: 80 * ms, 12: 100 * ms})
	})
}

// Units that pass make all that was refused before wait longer.
func TestADenialEndsOnceUnitsPass(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		const ms = time.Millisecond
		five := Denial{Cost: 5, RetryAfter: 50 * ms, Waits: slowly{}}
		late := tier.Stamp(k)
		tier.learn(k, tier.Stamp(k), five)
		tier.Passed(k, tier.Stamp(k))
		tier.knows(t, k, map[int64]time.Duration{5: 0, 6: 0})
		tier.learn(k, late, five) // sent before, and maybe refused before
		tier.knows(t, k, map[int64]time.Duration{5: 0, 6: 0})
		tier.learn(k, tier.Stamp(k), five)
		tier.knows(t, k, map[int64]time.Duration{5: 50 * ms, 6: 60 * ms})
	})
}

// What a call refused it refused after what it charged: so that is known, unless
// another charged meanwhile.
func TestACallThatChargesAndRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		d := Denial{Cost: 5, RetryAfter: 50 * time.Millisecond}
		tier.learn(k, tier.Passed(k, tier.Stamp(k)), d)
		tier.knows(t, k, map[int64]time.Duration{5: d.RetryAfter})
		one, other := tier.Stamp(k), tier.Stamp(k)
		one, other = tier.Passed(k, one), tier.Passed(k, other)
		tier.learn(k, one, d)
		tier.learn(k, other, d)
		tier.knows(t, k, map[int64]time.Duration{5: 0})
	})
}

// What comes late, and is void, leaves what is known since.
func TestADenialThatIsVoidReplacesNone(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		late := tier.Stamp(k)
		tier.Passed(k, tier.Stamp(k))
		d := Denial{Cost: 5, RetryAfter: 50 * time.Millisecond}
		tier.learn(k, tier.Stamp(k), d)
		tier.learn(k, late, Denial{Cost: 1, RetryAfter: time.Second, Waits: slowly{}})
		tier.knows(t, k, map[int64]time.Duration{1: 0, 5: d.RetryAfter, 6: 0})
	})
}

// A lease charges what it lends, and an ask without an answer may have.
func TestADenialEndsOnceUnitsAreLent(t *testing.T) {
	for name, l := range map[string]*lender{
		"lent":    {grant: Grant{Units: 10}, trip: time.Millisecond},
		"unknown": {err: errors.New("no reply"), trip: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tier := startTier(t, l, Config{})
				heatUp(tier, keyA) // and the ask is under way
				many := Denial{Cost: 50, RetryAfter: time.Second}
				s := tier.Stamp(keyA)
				tier.learn(keyA, s, many)
				tier.knows(t, keyA, map[int64]time.Duration{50: time.Second})
				time.Sleep(2 * time.Millisecond)
				tier.learn(keyA, s, many)
				tier.knows(t, keyA, map[int64]time.Duration{50: 0})
			})
		})
	}
}

func TestADenialIsOfItsVersionAndItsKey(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		for name, other := range map[string]Key{
			"version": {Spec: &Spec{Policy: 1, Version: 2}, Subject: "a"},
			"policy":  {Spec: &Spec{Policy: 2, Version: 1}, Subject: "a"},
			"subject": {Spec: k.Spec, Subject: "b"},
		} {
			if got, known := tier.decided(other, 1); known {
				t.Errorf("another %s: got %+v, want not known", name, got)
			}
		}
	})
}

// What is known under one version does not keep what is refused under another from
// being known.
func TestTheLatestVersionsDenialIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		raised := Key{Spec: &Spec{Policy: 1, Version: 2, NoLease: Off}, Subject: k.Subject}
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second, Waits: slowly{}})
		tier.learn(raised, tier.Stamp(raised), Denial{Cost: 5, RetryAfter: 50 * time.Millisecond})
		tier.knows(t, raised, map[int64]time.Duration{1: 0, 5: 50 * time.Millisecond, 6: 0})
	})
}

func TestADenialEndsAtRetryAfterOrItsTTL(t *testing.T) {
	for _, c := range []struct{ retry, want time.Duration }{
		{30 * time.Millisecond, 30 * time.Millisecond},
		{time.Hour, DenialTTL},
	} {
		onBoth(t, func(t *testing.T, tier *Tier, k Key) {
			s := tier.Stamp(k)
			time.Sleep(10 * time.Millisecond) // the call's way
			tier.learn(k, s, Denial{Cost: 1, RetryAfter: c.retry})
			time.Sleep(c.want - 10*time.Millisecond - time.Nanosecond)
			if _, known := tier.decided(k, 1); !known {
				t.Errorf("retry after %v: not known just before %v", c.retry, c.want)
			}
			time.Sleep(time.Nanosecond)
			if _, known := tier.decided(k, 1); known {
				t.Errorf("retry after %v: known after %v", c.retry, c.want)
			}
		})
	}
}

// The wait that Redis told is from the answer on: who waits as long from then
// comes too late rather than too early.
func TestADenialTellsTheWholeWait(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		s := tier.Stamp(k)
		time.Sleep(10 * time.Millisecond) // the call's way
		tier.learn(k, s, Denial{Cost: 1, RetryAfter: time.Hour, ResetAfter: 2 * time.Hour})
		time.Sleep(100 * time.Millisecond)
		want := Answer{Source: FromDenial, RetryAfter: time.Hour - 100*time.Millisecond, ResetAfter: 2*time.Hour - 100*time.Millisecond}
		if got, known := tier.decided(k, 1); !known || got != want {
			t.Errorf("got %+v, %t; want %+v", got, known, want)
		}
	})
}

func TestForgetEndsADenial(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		late := tier.Stamp(k)
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		tier.Forget(k)
		if got, known := tier.decided(k, 1); known {
			t.Errorf("got %+v, want not known", got)
		}
		tier.learn(k, late, Denial{Cost: 1, RetryAfter: time.Second})
		if got, known := tier.decided(k, 1); known {
			t.Errorf("learnt from a call before: got %+v, want not known", got)
		}
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		if _, known := tier.decided(k, 1); !known {
			t.Error("learnt from a call after: not known")
		}
	})
}

func TestADenialThatSaysLessReplacesNone(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		const ms = time.Millisecond
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: 200 * ms, Waits: slowly{}})
		tier.learn(k, tier.Stamp(k), Denial{Cost: 5, RetryAfter: 100 * ms})
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: 100 * ms})
		time.Sleep(150 * ms)
		tier.knows(t, k, map[int64]time.Duration{1: 50 * ms})
	})
}

// Known denials of any cost are told without an allocation.
func TestADenialIsToldWithoutAnAllocation(t *testing.T) {
	tier := startTier(t, &lender{}, Config{})
	e := tier.table.add(newEntry(keyA, keyA.hash(tier.seed), 1000, 1000, tier.now()))
	d := newDenial(Denial{Cost: 5, RetryAfter: time.Hour, Waits: slowly{}}, keyA.Spec.Version, tier.Stamp(keyA), tier.now())
	d.until = moment(time.Hour)
	e.denial.Store(d)
	for _, cost := range []int64{5, 6} {
		if n := testing.AllocsPerRun(100, func() { tier.decided(keyA, cost) }); n != 0 {
			t.Errorf("%d: %v allocations", cost, n)
		}
	}
}

func TestADenialOfALongSubjectIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := startTier(t, &lender{}, Config{})
		k := Key{Spec: keyA.Spec, Subject: strings.Repeat("x", MaxSubject+1)}
		for range 100 {
			tier.Observe(k, 1)
		}
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		if _, known := tier.decided(k, 1); known {
			t.Error("known")
		}
		if got := tier.Inspect(); got.Entries != 0 || len(got.Hot) != 0 {
			t.Errorf("got %+v, want nothing of it", got)
		}
	})
}

func TestAKeyDeniedOftenBecomesHot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := startTier(t, &lender{}, Config{})
		tier.learn(keyA, tier.Stamp(keyA), Denial{Cost: 1, RetryAfter: time.Second})
		for range 100 {
			if _, known := tier.decided(keyA, 1); !known {
				t.Fatal("not known")
			}
		}
		time.Sleep(time.Nanosecond)
		s := tier.Inspect()
		if s.Entries != 1 || s.Counts.TailDenied != 20 || s.Counts.Denied != 80 {
			t.Errorf("got %+v, want an entry from the 20th denial on", s)
		}
	})
}
