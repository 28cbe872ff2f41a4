package hotkey

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ledger is a Redis that lends whatever is asked for, loses calls and replies,
// and keeps a book of every key.
type ledger struct {
	world sync.RWMutex // held for writing while the books are checked
	seed  uint64
	calls atomic.Uint64
	kind  atomic.Bool // it refuses nothing: the tier, as it closes, does not try again
	books [tortureKeys]book
}

// book is what became of a key's units.
type book struct {
	granted, back, lost atomic.Int64 // by Redis
	spent               atomic.Int64 // by callers, and not refunded here
	asking              atomic.Bool
	overlaps            atomic.Int64
}

const tortureKeys = 100_000

func (l *ledger) of(k Key) *book {
	i, _ := strconv.Atoi(k.Subject)
	return &l.books[i]
}

func (l *ledger) Lease(_ context.Context, k Key, ask Ask) (Grant, error) {
	time.Sleep(time.Millisecond / 4)
	l.world.RLock()
	defer l.world.RUnlock()
	b := l.of(k)
	if !b.asking.CompareAndSwap(false, true) {
		b.overlaps.Add(1)
	}
	defer b.asking.Store(false)
	random := rand.New(rand.NewPCG(l.seed, l.calls.Add(1)))
	fate := random.IntN(20)
	if fate == 0 && !l.kind.Load() {
		return Grant{}, fmt.Errorf("refused: %w", ErrNeverRan)
	}
	granted := min(ask.Want, random.Int64N(60))
	b.granted.Add(granted)
	for _, s := range ask.Settle {
		if fate == 1 { // it did not run, though nobody can tell
			b.lost.Add(s.Unspent)
		} else {
			b.back.Add(s.Unspent)
		}
	}
	if fate <= 2 {
		b.lost.Add(granted)
		return Grant{}, errors.New("no reply")
	}
	// Leases that end soon stand for all that end.
	return Grant{Units: granted, Until: 20 * time.Millisecond, Next: time.Duration(random.IntN(2)) * time.Millisecond}, nil
}

// check compares each key's book with what the tier holds of it. Nothing moves
// meanwhile.
func (l *ledger) check(t *testing.T, tier *Tier) {
	t.Helper()
	held := map[*book]int64{}
	for _, e := range tier.table.appendAll(nil) {
		if lease := e.lease.Load(); lease != nil && lease.word.Load()&closedBit == 0 {
			held[l.of(e.key)] += int64(lease.word.Load() & leftMask)
		}
		for _, o := range e.owed {
			held[l.of(e.key)] += o.Unspent
		}
	}
	for i := range l.books {
		b := &l.books[i]
		if b.granted.Load() == 0 {
			continue
		}
		out := b.granted.Load() - b.spent.Load() - b.back.Load() - b.lost.Load()
		if want := held[b]; out != want {
			t.Errorf("key %d: %d units are out, but the tier holds %d", i, out, want)
		}
		if n := b.overlaps.Load(); n > 0 {
			t.Errorf("key %d: %d asks beside another", i, n)
		}
	}
	if n := len(tier.table.appendAll(nil)); n > tier.config.Entries || int64(n) != tier.table.size.Load() {
		t.Errorf("%d entries, counted %d, of at most %d", n, tier.table.size.Load(), tier.config.Entries)
	}
}

// chill makes the entry cold, and sweeps it: its lease goes back, then it.
func chill(t *Tier, e *entry) {
	e.mu.Lock()
	e.demand.sumRequests = 0
	e.mu.Unlock()
	t.sweep(e)
}

// How much is asked for, and how often all is checked, in tables of three sizes
// together.
var (
	tortureOperations = flag.Int("torture.operations", 1_000_000, "requests decided")
	tortureChecks     = flag.Int("torture.checks", 348, "times that the world stops and each key's book is checked")
)

// tortureCallers is how many goroutines ask.
const tortureCallers = 8

// Units are lent, spent, refunded, settled, lost and given back on keys that come
// and go, in a table that is far too small. At every check each unit is where
// exactly one says that it is. Time is the bubble's: leases end by it, and no
// settlement is too old however slow the machine.
func TestNoUnitIsLostOrSpentTwice(t *testing.T) {
	sizes := []int{8, 64, 1024}
	checks := *tortureChecks / len(sizes)
	perCheck := *tortureOperations / *tortureChecks / tortureCallers
	for _, entries := range sizes {
		t.Run(strconv.Itoa(entries), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{seed: seed}
				tier, err := NewTier(l, Config{Entries: entries, DenialBytes: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				tier.sweeping.Store(true) // the test sweeps, so that it can stop it
				l.torture(t, tier, checks, perCheck)
				l.kind.Store(true)
				if err := tier.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				l.check(t, tier)
				if got := tier.Inspect(); got.Held != 0 || got.Counts.Lent == 0 {
					t.Errorf("%d units held after Close, of %d lent", got.Held, got.Counts.Lent)
				}
			})
		})
	}
}

// torture runs callers, each of whom asks perCheck times between two checks, and
// a dropper.
func (l *ledger) torture(t *testing.T, tier *Tier, checks, perCheck int) {
	ctx, stop := context.WithCancel(t.Context())
	var dropper, callers sync.WaitGroup
	dropper.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			l.drop(tier)
			if n%sweepEach == 0 {
				l.sweep(tier)
			}
			time.Sleep(time.Millisecond)
		}
	})
	for g := range uint64(tortureCallers) {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(l.seed, 1<<32+g))
			zipf := rand.NewZipf(random, 1.05, 1, tortureKeys-1)
			for i := range checks * perCheck {
				l.call(tier, zipf, random)
				if i%10 == 0 {
					time.Sleep(time.Millisecond / 10)
				}
				if g == 0 && i%perCheck == perCheck-1 {
					l.stop(t, tier)
				}
			}
		})
	}
	callers.Wait()
	stop()
	dropper.Wait()
}

const (
	dropped   = 50 // hottest keys are swept again and again
	sweepEach = int(LeaseTime / 4 / time.Millisecond)
)

// drop sweeps the entries of the hottest keys, every other after it was made cold.
func (l *ledger) drop(tier *Tier) {
	l.world.RLock()
	defer l.world.RUnlock()
	hottest := tier.heat.top.list()
	for i, c := range hottest[:min(len(hottest), dropped)] {
		switch e := tier.table.find(c.hash, c.key); {
		case e == nil:
		case i%2 == 0:
			chill(tier, e)
		default:
			tier.sweep(e)
		}
	}
}

// sweep sweeps all entries, as a sweeper does.
func (l *ledger) sweep(tier *Tier) {
	l.world.RLock()
	defer l.world.RUnlock()
	for _, e := range tier.table.appendAll(nil) {
		tier.sweep(e)
	}
}

var tortureSpec = &Spec{Policy: 1, Version: 1}

// call decides one request, and now and then refunds it.
func (l *ledger) call(tier *Tier, zipf *rand.Zipf, random *rand.Rand) {
	l.world.RLock()
	defer l.world.RUnlock()
	k := Key{Spec: tortureSpec, Subject: strconv.FormatUint(zipf.Uint64(), 10)}
	cost := 1 + random.Int64N(3)
	a, known := tier.decided(k, cost)
	switch {
	case !known:
		tier.heat.observe(k, k.hash(tier.seed), 100, tier.now()) // hot at once
		tier.Observe(k, cost)
	case a.Allowed:
		l.of(k).spent.Add(cost)
		if random.IntN(10) == 0 && a.Spend.Refund() == RefundedHere {
			l.of(k).spent.Add(-cost)
		}
	}
}

// stop stops callers and droppers, waits until no ask is under way, and checks.
func (l *ledger) stop(t *testing.T, tier *Tier) {
	l.world.Lock()
	defer l.world.Unlock()
	// Those who ask have to come to an end: let them have the world meanwhile.
	for idle := false; !idle; {
		l.world.Unlock()
		time.Sleep(time.Millisecond / 10)
		l.world.Lock()
		tier.asks.mu.Lock()
		idle = tier.asks.workers == 0
		tier.asks.mu.Unlock()
	}
	l.check(t, tier)
}
