package hotkey

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsLeftOfALeaseIsGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Token: Token{At: 7}}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		spendAll(tier, keyA, 3)
		l.take()
		time.Sleep(2 * LeaseTime)
		var settled []Settlement
		for _, ask := range l.take() {
			if ask.Want != 0 {
				t.Errorf("asked for %d units, want none: nobody asks for them here", ask.Want)
			}
			settled = append(settled, ask.Settle...)
		}
		if diff := cmp.Diff([]Settlement{{Token: Token{At: 7}, Units: 10, Unspent: 7}}, settled); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
		if got := tier.Inspect().Counts; got.Lent != 10 || got.GivenBack != 7 || got.Leased != 3 {
			t.Errorf("counts %+v, want 10 lent, 7 given back, 3 requests", got)
		}
	})
}

func TestASettlementIsSentAgainOnlyIfItNeverRan(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		settled   int64
		forgotten int64
	}{
		"never ran": {errors.Join(errors.New("no connection"), ErrNeverRan), 10, 0},
		"unknown":   {errors.New("timeout"), 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lender{grant: Grant{Units: 10}}
				tier := startTier(t, l, Config{})
				heatUp(tier, keyA)
				l.fail(c.err)
				l.take()
				time.Sleep(LeaseTime * 3 / 2) // it ended, and the settlement failed
				l.fail(nil)
				time.Sleep(3 * LeaseTime)
				sent := 0
				for _, ask := range l.take() {
					sent += len(ask.Settle)
				}
				if got := tier.Inspect().Counts.GivenBack; got != c.settled {
					t.Errorf("%d units came back, want %d", got, c.settled)
				}
				if c.settled == 0 && sent != 1 {
					t.Errorf("sent %d times, want 1", sent)
				}
				if got := tier.Inspect().Counts.Forgotten; got != c.forgotten {
					t.Errorf("forgot %d units, want %d", got, c.forgotten)
				}
			})
		})
	}
}

// What an ask that never ran was to say the next one says: at once what was to be
// settled, and what was offered once units are asked for again.
func TestAnAskThatNeverRanIsSaidByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Token: Token{At: 1}}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		time.Sleep(10 * time.Millisecond)
		spendAll(tier, keyA, 8) // and the next is lent
		synctest.Wait()
		l.take()
		time.Sleep(10 * time.Millisecond)
		l.fail(ErrNeverRan)
		spendAll(tier, keyA, 8)
		synctest.Wait()
		failed := l.take()
		if len(failed) != 1 || failed[0].Offered != 8 || len(failed[0].Settle) != 1 {
			t.Fatalf("asked %+v, want once, with 8 offered and a lease settled", failed)
		}
		l.fail(nil)
		time.Sleep(LeaseTime / 2)
		again := l.take()
		if len(again) != 1 || again[0].Offered != 8 || !slices.Equal(again[0].Settle, failed[0].Settle) {
			t.Errorf("asked %+v, want what %+v was to say", again, failed)
		}
	})
}

// Who found an entry just before it was dropped gets no lease for it, which nobody
// would settle.
func TestAnEntryThatWasDroppedGetsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		e := tier.table.find(keyA.hash(tier.seed), keyA)
		time.Sleep(10 * LeaseTime)
		if n := tier.Inspect().Entries; n != 0 {
			t.Fatalf("%d entries, want it dropped as it has cooled", n)
		}
		l.take()
		e.missed.Add(10_000)
		tier.acquire(e, keyA, tier.now())
		synctest.Wait()
		if asks := l.take(); asks != nil {
			t.Errorf("asked %+v", asks)
		}
	})
}

func TestAnAskSettlesTheLeaseThatHasJustEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Token: Token{At: 1}}, trip: 10 * time.Millisecond}
		tier := startTier(t, l, Config{})
		tier.keepSweeping()
		time.Sleep(5 * time.Millisecond) // after it: the sweeper comes as late
		heatUp(tier, keyA)
		time.Sleep(LeaseTime)
		l.take()
		tier.Observe(keyA, 1)
		time.Sleep(l.trip)
		synctest.Wait()
		want := []Settlement{{Token: Token{At: 1}, Units: 10, Unspent: 10}}
		if asks := l.take(); len(asks) != 1 || asks[0].Want == 0 || cmp.Diff(want, asks[0].Settle) != "" {
			t.Errorf("asked %+v, want once for more, settling %v", asks, want)
		}
	})
}

// A shard that can't be reached is asked once, as the tier closes, and not again
// and again.
func TestCloseSettlesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier, err := NewTier(l, Config{})
		if err != nil {
			t.Fatal(err)
		}
		heatUp(tier, keyA)
		l.take()
		l.fail(ErrNeverRan)
		began := time.Now()
		if err := tier.Close(t.Context()); err != nil {
			t.Error(err)
		}
		asks, c := l.take(), tier.Inspect().Counts
		if len(asks) != 1 || c.Forgotten != 10 || time.Since(began) > 0 {
			t.Errorf("asked %+v within %v, counts %+v; want once, at once, and 10 units forgotten", asks, time.Since(began), c)
		}
	})
}

func TestASettlementThatCannotBeSentIsForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		l.fail(ErrNeverRan)
		time.Sleep(2 * LeaseTime)
		if got := tier.Inspect().Counts.Forgotten; got != 0 {
			t.Errorf("forgot %d units early", got)
		}
		time.Sleep(LeaseTime)
		if got := tier.Inspect().Counts.Forgotten; got != 10 {
			t.Errorf("forgot %d units, want 10", got)
		}
		l.fail(nil)
		l.take()
		time.Sleep(2 * time.Second)
		if asks := l.take(); asks != nil {
			t.Errorf("asked %+v, want what is forgotten never sent", asks)
		}
	})
}

func TestCloseGivesEveryLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}, trip: time.Millisecond}
		tier, err := NewTier(l, Config{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		const keys = 20
		for i := range keys {
			heatUp(tier, Key{Spec: keyA.Spec, Subject: string(rune('a' + i))})
		}
		time.Sleep(15 * time.Millisecond)
		spendAll(tier, keyA, 1)
		l.take()
		heatUp(tier, Key{Spec: keyA.Spec, Subject: "late"}) // its lease is under way
		if err := tier.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var back int64
		for _, ask := range l.take() {
			for _, s := range ask.Settle {
				back += s.Unspent
			}
		}
		if want := int64(10*(keys+1) - 1); back != want {
			t.Errorf("%d units came back, want %d", back, want)
		}
		if _, known := tier.decided(keyA, 1); known {
			t.Error("spent after Close")
		}
		tier.Observe(keyA, 1)
		tier.Denied(keyA, tier.Stamp(keyA), Denial{Cost: 1, RetryAfter: time.Second})
		if err := tier.Close(t.Context()); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

func TestCloseReturnsAtItsContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10}}
		tier, err := NewTier(l, Config{})
		if err != nil {
			t.Fatal(err)
		}
		heatUp(tier, keyA)
		l.trip = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := tier.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want its deadline after 1s", err, time.Since(began))
		}
		time.Sleep(time.Minute) // for the lender, who heeds no context
	})
}

// Leases that are settled alone take an ask each, oldest first, before the ask for
// units; each has its own outcome.
func TestLeasesThatAreSettledAloneHaveTheirOwnOutcomes(t *testing.T) {
	alone := Key{Spec: &Spec{Policy: 1, Version: 1, SettleAlone: true}, Subject: "a"}
	never, unknown := errors.Join(errors.New("refused"), ErrNeverRan), errors.New("timeout")
	for _, c := range []struct {
		name      string
		outcomes  []error // of the asks, in turn; nil once they are used up
		settled   []int64 // units unspent of each lease that an ask settled
		wants     int     // asks for units
		back      int64
		forgotten int64
	}{
		{"both run", nil, []int64{10, 2}, 1, 12, 0},
		{"the first never runs", []error{never}, []int64{10, 10, 2}, 0, 12, 0},
		{"the second never runs", []error{nil, never}, []int64{10, 2, 2}, 0, 12, 0},
		{"the first is unknown", []error{unknown}, []int64{10, 2}, 0, 2, 10},
		{"the second is unknown", []error{nil, unknown}, []int64{10, 2}, 0, 10, 2},
		{"the ask for units never runs", []error{nil, nil, never}, []int64{10, 2}, 1, 12, 0},
		{"the ask for units is unknown", []error{nil, nil, unknown}, []int64{10, 2}, 1, 12, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lender{}
				tier := startTier(t, l, Config{})
				heatUp(tier, alone)
				l.take()
				e := tier.table.find(alone.hash(tier.seed), alone)
				e.mu.Lock()
				for _, unspent := range []int64{10, 2} {
					e.owed = append(e.owed, owed{
						Settlement: Settlement{Units: 10, Unspent: unspent},
						sent:       tier.now(), due: tier.now().add(LeaseTime),
					})
				}
				e.askAfter.Store(0)
				e.mu.Unlock()
				l.failInTurn(c.outcomes)
				tier.Observe(alone, 1) // asks for units
				time.Sleep(2 * LeaseTime)
				var settled []int64
				wants := 0
				for _, ask := range l.take() {
					if len(ask.Settle) > 1 || len(ask.Settle) == 1 && (ask.Want > 0 || ask.Offered > 0) {
						t.Errorf("asked %+v, want one settled, and nothing besides", ask)
					}
					for _, s := range ask.Settle {
						settled = append(settled, s.Unspent)
					}
					if ask.Want > 0 {
						wants++
					}
				}
				if diff := cmp.Diff(c.settled, settled); diff != "" || wants != c.wants {
					t.Errorf("asked for units %d times, want %d; settled (-want +got):\n%s", wants, c.wants, diff)
				}
				if got := tier.Inspect().Counts; got.GivenBack != c.back || got.Forgotten != c.forgotten {
					t.Errorf("%d given back, %d forgotten; want %d, %d", got.GivenBack, got.Forgotten, c.back, c.forgotten)
				}
			})
		})
	}
}
