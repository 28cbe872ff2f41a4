package hotkey

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAKeyThatIsHotGetsALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 5, Remaining: 90, Limit: 2, ResetAfter: time.Second}}
		tier := startTier(t, l, Config{})
		const every = 10 * time.Millisecond
		for i := 0; l.asks == nil; i++ {
			if _, known := tier.decided(keyA, 1); known {
				t.Fatalf("request %d: known, want not", i)
			}
			tier.Observe(keyA, 1)
			synctest.Wait()
			if i == 18 && tier.Inspect().Entries != 0 { // 20 in the first second are 20 a second
				t.Fatal("an entry before the key is hot")
			}
			if i == 100 {
				t.Fatal("asked 100 times a second, and not leased after one")
			}
			time.Sleep(every)
		}
		// 100 a second in half a lease time, and a fifth more: 12. It begins with
		// less, as long as little is known.
		asks := l.take()
		if len(asks) != 1 || asks[0].Want < minUnits || asks[0].Want > 12 {
			t.Fatalf("asked %v, want once for 4 to 12", asks)
		}
		got, known := tier.decided(keyA, 2)
		left := min(5, asks[0].Want) - 2
		want := Answer{
			Allowed: true, Source: FromLease, Limit: 2, Remaining: 90 + left,
			ResetAfter: time.Second - every, Spend: got.Spend,
		}
		if !known || got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got.Spend.Cost() != 2 || got.Spend.Lease() == nil || tier.Left(keyA) != left {
			t.Errorf("spend of %d, %d left; want 2, %d", got.Spend.Cost(), tier.Left(keyA), left)
		}
	})
}

func TestAKeyWhoseLeaseWouldBeTooSmallIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		for range 75 { // 25 a second: 3 units a lease
			tier.Observe(keyA, 1)
			time.Sleep(time.Second / 25)
		}
		if asks := l.take(); asks != nil {
			t.Errorf("asked %+v", asks)
		}
		if got := tier.Inspect().Hot; len(got) != 1 || got[0].NoLease != SmallShare || got[0].Rate < 22 || got[0].Rate > 28 {
			t.Errorf("hot %+v, want one at 25 a second, not leased for its small share", got)
		}
	})
}

func TestALeaseIsOverALeaseTimeAfterItWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 5}, trip: 150 * time.Millisecond}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		time.Sleep(LeaseTime - time.Nanosecond)
		if _, known := tier.decided(keyA, 1); !known {
			t.Error("just before the end: not known, want a spend")
		}
		time.Sleep(time.Nanosecond)
		if got, known := tier.decided(keyA, 1); known {
			t.Errorf("at the end: got %+v, want to be sent to Redis", got)
		}
	})
}

func TestALeaseIsRenewedBeforeItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Token: Token{At: 1}}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		l.take()
		time.Sleep(10 * time.Millisecond)
		spendAll(tier, keyA, 7)
		synctest.Wait()
		if asks := l.take(); asks != nil {
			t.Fatalf("3 left: asked %v", asks)
		}
		spendAll(tier, keyA, 1) // 2 left of 10
		synctest.Wait()
		asks := l.take()
		if len(asks) != 1 || asks[0].Settle != nil || asks[0].Offered != 9 {
			t.Fatalf("2 left: asked %+v, want once, with 9 offered, settling nothing", asks)
		}
		if left := tier.Left(keyA); left != 10 {
			t.Errorf("left %d, want the next lease's 10", left)
		}
		time.Sleep(10 * time.Millisecond)
		spendAll(tier, keyA, 8)
		synctest.Wait()
		asks = l.take()
		want := []Settlement{{Token: Token{At: 1}, Units: 10, Unspent: 2}}
		if len(asks) != 1 || cmp.Diff(want, asks[0].Settle) != "" {
			t.Errorf("asked %+v, want once, settling %v", asks, want)
		}
	})
}

func TestALeaseIsRenewedBeforeItEndsIfItIsStillSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		l.take()
		time.Sleep(LeaseTime * 4 / 5)
		tier.decided(keyA, 1)
		synctest.Wait()
		if asks := l.take(); len(asks) != 1 || asks[0].Want == 0 {
			t.Errorf("asked %+v, want once for the next lease", asks)
		}
	})
}

// What is offered is every unit that was asked for, once: those of larger costs
// whoever decides, and those that were refunded.
func TestWhatIsOfferedIsCountedToTheUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Next: 50 * time.Millisecond}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		l.take()
		time.Sleep(10 * time.Millisecond)
		offered := int64(1) // as it was heated up
		tier.Observe(keyA, 5)
		first, _ := tier.decided(keyA, 3)
		tier.Inspect() // counts
		offered += 5 + 3
		if got := first.Spend.Refund(); got != RefundedHere {
			t.Fatalf("refund: %v", got)
		}
		time.Sleep(10 * time.Millisecond)
		tier.Inspect()
		spent, _, _ := spendAll(tier, keyA, 11)
		denied, _ := tier.decided(keyA, 4)
		offered += int64(spent) + 1 + 4
		time.Sleep(denied.RetryAfter)
		tier.decided(keyA, 1)
		offered++
		synctest.Wait()
		if asks := l.take(); spent != 10 || len(asks) != 1 || asks[0].Offered != offered {
			t.Errorf("asked %+v, want once, with %d offered", asks, offered)
		}
	})
}

func TestAnAskThatBringsNothingLeavesTheLeaseAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		l.mu.Lock()
		l.grant = Grant{}
		l.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		spendAll(tier, keyA, 8)
		synctest.Wait()
		if n, left := len(l.versions()), tier.Left(keyA); n != 2 || left != 2 {
			t.Errorf("asked %d times and %d left, want twice and 2", n, left)
		}
	})
}

func TestNoMoreIsTakenThanWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := startTier(t, generous{units: 1000}, Config{})
		heatUp(tier, keyA)
		most := int64(1000 * (LeaseTime / 2).Seconds() * 1.2)
		if got := tier.Left(keyA); got < minUnits || got > most {
			t.Errorf("%d units of a lease, want no more than the %d asked for", got, most)
		}
	})
}

func TestALeaseIsSpentUnderItsOwnVersionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		raised := Key{Spec: &Spec{Policy: 1, Version: 2}, Subject: "a"}
		if got, known := tier.decided(raised, 1); known {
			t.Errorf("got %+v, want not known", got)
		}
		if left := tier.Left(raised); left != 0 {
			t.Errorf("%d left under another version, want 0", left)
		}
		time.Sleep(LeaseTime + time.Millisecond)
		heatUp(tier, raised) // the lease has ended: it is the other version's turn
		if got, known := tier.decided(raised, 1); !known || !got.Allowed {
			t.Errorf("got %+v, %t, want a spend", got, known)
		}
		if k := l.keys[len(l.keys)-1]; k.Spec.Version != 2 {
			t.Errorf("asked under version %d, want 2", k.Spec.Version)
		}
		if _, known := tier.decided(keyA, 1); known {
			t.Error("the old version spent the new one's lease")
		}
	})
}

// As long as a lease lives its version has the turn.
func TestAnotherVersionWaitsForTheEndOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		tier.Observe(Key{Spec: &Spec{Policy: 1, Version: 2}, Subject: "a"}, 1)
		time.Sleep(10 * time.Millisecond)
		spendAll(tier, keyA, 8)
		synctest.Wait()
		if got := l.versions(); !slices.Equal(got, []uint64{1, 1}) {
			t.Errorf("asked under versions %v, want the next lease under the first again", got)
		}
	})
}

func TestAKeyOfAPolicyWithoutLeasesAsksForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		k := Key{Spec: &Spec{Policy: 1, NoLease: Off}, Subject: "a"}
		heatUp(tier, k)
		time.Sleep(2 * LeaseTime)
		if asks := l.take(); asks != nil {
			t.Errorf("asked %+v", asks)
		}
	})
}

func TestAKeyThatGetsNoLeaseIsAskedForLater(t *testing.T) {
	for want, grant := range map[Reason]Grant{NothingLeft: {}, WindowSpent: {NoLease: WindowSpent}} {
		synctest.Test(t, func(t *testing.T) {
			l := &lender{grant: grant}
			tier := startTier(t, l, Config{})
			heatUp(tier, keyA)
			for range 99 {
				time.Sleep(10 * time.Millisecond)
				if _, known := tier.decided(keyA, 1); known {
					t.Error("decided here, want Redis")
				}
				tier.Observe(keyA, 1)
			}
			if asks := l.take(); len(asks) != 5 { // at 0, 50, 150, 350 and 750 ms
				t.Errorf("asked %d times, want 5", len(asks))
			}
			if got := tier.Inspect().Hot; len(got) != 1 || got[0].NoLease != want {
				t.Errorf("hot %+v, want one not leased: %v", got, want)
			}
		})
	}
}

func TestTheNextWindowIsAskedForAtItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Until: 20 * time.Millisecond}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		time.Sleep(20*time.Millisecond - time.Nanosecond)
		tier.Observe(keyA, 1)
		synctest.Wait()
		if asks := l.take(); len(asks) != 1 {
			t.Errorf("asked %d times in the window, want once", len(asks))
		}
		time.Sleep(time.Nanosecond)
		tier.Observe(keyA, 1)
		synctest.Wait()
		if asks := l.take(); len(asks) != 1 {
			t.Errorf("asked %d times in the next, want once", len(asks))
		}
	})
}

func TestAKeyThatCoolsGivesItsPlaceToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{Entries: 1})
		heatUp(tier, keyA)
		other := Key{Spec: keyA.Spec, Subject: "b"}
		heatUp(tier, other)
		s := tier.Inspect()
		i := slices.IndexFunc(s.Hot, func(k HotKey) bool { return k.Subject == "b" })
		if s.Entries != 1 || i < 0 || s.Hot[i].NoLease != TableFull || s.Hot[i].Lease != nil {
			t.Errorf("got %+v, want b not leased, as the table is full", s)
		}
		time.Sleep(3 * time.Second)
		if got := tier.Inspect().Entries; got != 0 {
			t.Errorf("%d entries of keys that nobody asks for, want 0", got)
		}
		heatUp(tier, other)
		if _, known := tier.decided(other, 1); !known {
			t.Error("b isn't leased, and could be")
		}
	})
}

func TestInspectTellsOfAHotKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 50}}
		tier := startTier(t, l, Config{})
		began := time.Now()
		for time.Since(began) < 3*time.Second {
			if _, known := tier.decided(keyA, 1); !known {
				tier.Observe(keyA, 1)
			}
			time.Sleep(2 * time.Millisecond)
		}
		tier.Denied(keyA, tier.Stamp(keyA), Denial{Cost: 1000, RetryAfter: 100 * time.Millisecond})
		s := tier.Inspect()
		if len(s.Hot) != 1 || s.Hot[0].Lease == nil {
			t.Fatalf("hot %+v, want one with a lease", s.Hot)
		}
		hot := s.Hot[0]
		if hot.Policy != "api" || hot.Subject != "a" || hot.NoLease != Leasable || hot.Rate < 450 || hot.Rate > 550 {
			t.Errorf("got %+v, want api, a at about 500 a second", hot)
		}
		if hot.Denied != 100*time.Millisecond || hot.Cost != 1000 {
			t.Errorf("denied for %v from %d on, want 100ms, 1000", hot.Denied, hot.Cost)
		}
		if hot.Lease.Left != s.Held || s.Leases != 1 || s.Entries != 1 || s.Bytes <= 0 {
			t.Errorf("got %+v of %+v", *hot.Lease, s)
		}
		if got := s.Counts; got.Leased+got.Missed != 1500 || got.Missed > 60 || got.Asks > 60 {
			t.Errorf("counts %+v, want 1,500 requests, most of them leased, in about 40 asks", got)
		}
	})
}

func TestFaultsOfAConfigAreNamed(t *testing.T) {
	for _, tt := range []struct {
		config Config
		want   []string
	}{
		{Config{Entries: -1, DenialBytes: -2, HotRate: -3, Workers: -4}, []string{"Entries -1", "DenialBytes -2", "HotRate -3", "Workers -4"}},
		{Config{DenialBytes: MaxDenialBytes + 1, HotRate: math.NaN()}, []string{"DenialBytes 68719476737", "HotRate NaN"}},
	} {
		_, err := NewTier(&lender{}, tt.config)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %s named", tt.config, err, want)
			}
		}
	}
}

// The bounds at their ends: nothing is hot, and no denial fits; or one key is hot.
func TestTheSmallestConfigs(t *testing.T) {
	for _, c := range []Config{{Entries: 1, DenialBytes: 1, Workers: 1}, {HotRate: math.Inf(1)}} {
		synctest.Test(t, func(t *testing.T) {
			l := &lender{grant: Grant{Units: 10}, trip: time.Millisecond}
			tier := startTier(t, l, c)
			for range 100 {
				for _, k := range []Key{keyA, {Spec: keyA.Spec, Subject: "other"}} {
					if _, known := tier.decided(k, 1); !known {
						tier.Observe(k, 1)
					}
				}
				time.Sleep(time.Millisecond)
			}
			leased := c.HotRate == 0
			if got := tier.Inspect(); got.Entries > 1 || leased != (got.Counts.Lent > 0) {
				t.Errorf("%+v: %+v, want at most one entry, and units lent: %t", c, got, leased)
			}
			cold := Key{Spec: keyA.Spec, Subject: "cold"}
			tier.learn(cold, tier.Stamp(cold), Denial{Cost: 1, RetryAfter: time.Second})
			if _, known := tier.decided(cold, 1); known != (c.DenialBytes == 0) {
				t.Errorf("%+v: a denial is known: %t", c, known)
			}
		})
	}
}
