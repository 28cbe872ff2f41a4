package hotkey

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lender answers asks as it is told to, a round trip later.
type lender struct {
	mu    sync.Mutex
	grant Grant // to each ask for units, cut to what was wanted
	err   error
	errs  []error // of the next asks, one each, before err
	trip  time.Duration
	asks  []Ask
	keys  []Key
	under []uint64 // versions, of the asks for units
}

func (l *lender) Lease(_ context.Context, k Key, ask Ask) (Grant, error) {
	l.mu.Lock()
	trip := l.trip
	l.mu.Unlock()
	time.Sleep(trip)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks = append(l.asks, ask)
	l.keys = append(l.keys, k)
	if ask.Want > 0 {
		l.under = append(l.under, k.Spec.Version)
	}
	err := l.err
	if len(l.errs) > 0 {
		err, l.errs = l.errs[0], l.errs[1:]
	}
	if err != nil || ask.Want == 0 {
		return Grant{}, err
	}
	g := l.grant
	g.Units = min(g.Units, ask.Want)
	return g, nil
}

// fail has all asks from now on fail so; nil: none.
func (l *lender) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// failInTurn has the next asks fail so, one each; nil: that one does not.
func (l *lender) failInTurn(errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = errs
}

// take returns the asks since the last time.
func (l *lender) take() []Ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	asks := l.asks
	l.asks = nil
	return asks
}

// versions returns those that units were asked for under.
func (l *lender) versions() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.under)
}

func startTier(t *testing.T, asker Asker, c Config) *Tier {
	t.Helper()
	tier, err := NewTier(asker, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tier.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tier
}

// heatUp makes the key hot, at 1,000 requests a second, and sends one to Redis.
func heatUp(t *Tier, k Key) {
	hash := k.hash(t.seed)
	if e := t.table.add(newEntry(k, hash, 1000, 1000, t.now())); e != nil {
		t.keepSweeping()
	}
	t.heat.observe(k, hash, 1000, t.now())
	t.Observe(k, 1)
	synctest.Wait()
}

// decided returns what Decide answers, and whether it does.
func (t *Tier) decided(k Key, cost int64) (a Answer, known bool) {
	known = t.Decide(&a, k, cost)
	return a, known
}

// spendAll spends units one by one until Decide doesn't allow, at most n.
func spendAll(t *Tier, k Key, n int) (spent int, last Answer, known bool) {
	for spent < n {
		last, known = t.decided(k, 1)
		if !known || !last.Allowed {
			return spent, last, known
		}
		spent++
	}
	return spent, last, known
}

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

func TestAnEmptyLeaseDeniesUntilTheNextAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const next = 100 * time.Millisecond
		l := &lender{grant: Grant{Units: 10, Next: next}, trip: time.Millisecond}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		time.Sleep(2 * time.Millisecond)
		l.take()
		spent, got, known := spendAll(tier, keyA, 100)
		if spent != 10 || !known || got.Source != FromDenial {
			t.Fatalf("spent %d, then %+v, %t; want 10, then a denial", spent, got, known)
		}
		if got.RetryAfter < next*4/5-2*time.Millisecond || got.RetryAfter > next*6/5 {
			t.Errorf("retry after %v, want %v and a fifth more or less", got.RetryAfter, next)
		}
		synctest.Wait()
		if asks := l.take(); asks != nil {
			t.Fatalf("asked %+v before its time", asks)
		}
		time.Sleep(got.RetryAfter)
		if got, known := tier.decided(keyA, 1); !known || got.Allowed || got.RetryAfter != grace {
			t.Errorf("while the next is asked for: %+v, %t; want a denial for %v", got, known, grace)
		}
		time.Sleep(2 * time.Millisecond)
		if asks := l.take(); len(asks) != 1 || asks[0].Offered != 13 {
			t.Errorf("asked %+v, want once, having been offered 13", asks)
		}
		if got, known := tier.decided(keyA, 1); !known || !got.Allowed {
			t.Errorf("then: %+v, %t; want allowed", got, known)
		}
	})
}

func TestAnEmptyLeaseSaysNothingWhereDemandIsBelowTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 4}, trip: time.Millisecond}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		time.Sleep(2 * time.Millisecond)
		if spent, got, known := spendAll(tier, keyA, 100); spent != 4 || known {
			t.Errorf("spent %d, then %+v, %t; want 4, then not known", spent, got, known)
		}
	})
}

func TestAPauseThatIsLongOverDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 4, Next: 100 * time.Millisecond}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		spendAll(tier, keyA, 4)
		time.Sleep(2 * LeaseTime)
		if got, known := tier.decided(keyA, 1); known {
			t.Errorf("got %+v, want not known", got)
		}
	})
}

// However long the answers take, and however seldom the key is asked for: what came
// back elsewhere once a lease was lent passes here within DenialTTL.
func TestAnEmptyLeaseDeniesNoLongerThanADenial(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 60 * time.Millisecond, 170 * time.Millisecond} {
		for _, trip := range []time.Duration{0, time.Second} {
			t.Run(every.String()+"/"+trip.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { denyNoLonger(t, every, trip) })
			})
		}
	}
}

// denyNoLonger asks ever so often once a lease is empty, and whoever asks for the
// next is told nothing, a trip later.
func denyNoLonger(t *testing.T, every, trip time.Duration) {
	t.Helper()
	l := &lender{grant: Grant{Units: 4, Next: DenialTTL}, trip: 40 * time.Millisecond}
	tier := startTier(t, l, Config{})
	sent := time.Now()
	heatUp(tier, keyA)
	time.Sleep(l.trip)
	synctest.Wait()
	if spent, _, _ := spendAll(tier, keyA, 4); spent != 4 {
		t.Fatalf("spent %d, want 4", spent)
	}
	l.mu.Lock()
	l.grant, l.trip = Grant{}, trip
	l.mu.Unlock()
	for denied := 0; ; denied++ {
		got, known := tier.decided(keyA, 1)
		switch passed := time.Since(sent); {
		case known && passed >= DenialTTL:
			t.Fatalf("%v after it was asked for: %+v, want not known", passed, got)
		case !known && denied == 0:
			t.Fatal("an empty lease denied nobody")
		case passed > 3*DenialTTL:
			return
		}
		time.Sleep(every)
	}
}

// The grace fits into DenialTTL, however long Redis says to wait: else all who come
// while the next is asked for would ask Redis themselves.
func TestTheLongestPauseLeavesTimeForTheNextAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Next: time.Second}, trip: time.Millisecond}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		time.Sleep(l.trip)
		synctest.Wait()
		_, got, _ := spendAll(tier, keyA, 11)
		if want := DenialTTL - grace - l.trip; got.RetryAfter != want {
			t.Fatalf("%+v, want a denial for %v", got, want)
		}
		time.Sleep(got.RetryAfter)
		for range 2 {
			if got, known := tier.decided(keyA, 1); !known || got.RetryAfter != grace {
				t.Errorf("as the next is asked for: %+v, %t; want a denial for %v", got, known, grace)
			}
		}
	})
}

// Units that are left may pass for a smaller cost, or come back: a larger one asks
// Redis.
func TestALeaseThatIsNotEmptyDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Next: 100 * time.Millisecond}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		spendAll(tier, keyA, 7)
		if got, known := tier.decided(keyA, 4); known {
			t.Errorf("4 of 3: got %+v, want not known", got)
		}
		if spent, got, _ := spendAll(tier, keyA, 10); spent != 3 || got.Source != FromDenial {
			t.Errorf("spent %d of 3, then %+v, want a denial", spent, got)
		}
	})
}

func TestAnEmptyLeaseWhoseNextCannotBeAskedForDeniesNobody(t *testing.T) {
	for name, err := range map[string]error{"never ran": ErrNeverRan, "unknown": errors.New("no reply")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const next = 50 * time.Millisecond
				l := &lender{grant: Grant{Units: 10, Next: next}}
				tier := startTier(t, l, Config{})
				heatUp(tier, keyA)
				_, denied, _ := spendAll(tier, keyA, 11)
				l.fail(err)
				time.Sleep(denied.RetryAfter)
				if got, known := tier.decided(keyA, 1); !known || got.RetryAfter != grace {
					t.Errorf("as the next is asked for: %+v, %t; want a denial for %v", got, known, grace)
				}
				time.Sleep(grace)
				if got, known := tier.decided(keyA, 1); known {
					t.Errorf("after that failed: %+v, want not known", got)
				}
			})
		})
	}
}

func TestForgetEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 4, Next: 100 * time.Millisecond}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		spendAll(tier, keyA, 4)
		tier.Forget(keyA)
		if got, known := tier.decided(keyA, 1); known {
			t.Errorf("got %+v, want not known", got)
		}
	})
}

func TestAPauseAskedForBeforeAForgetIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Next: 100 * time.Millisecond}, trip: 10 * time.Millisecond}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		tier.Forget(keyA)
		time.Sleep(20 * time.Millisecond)
		if got, known := tier.decided(keyA, 1); known {
			t.Errorf("got %+v, want not known", got)
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

// What was said of one version's share does not keep another from asking.
func TestAPauseIsOfItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{grant: Grant{Units: 10, Next: 2 * DenialTTL}}
		tier := startTier(t, l, Config{})
		heatUp(tier, keyA)
		spendAll(tier, keyA, 10)
		time.Sleep(LeaseTime) // it ended, and would deny for longer
		for range 2 {
			tier.Observe(keyA, 1)
			tier.Observe(Key{Spec: &Spec{Policy: 1, Version: 2}, Subject: "a"}, 1)
			synctest.Wait()
		}
		if got := l.versions(); !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("asked under versions %v, want the second once, and the first not before its pause is over", got)
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
