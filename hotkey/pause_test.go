package hotkey

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

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
