package hotkey

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
