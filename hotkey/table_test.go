package hotkey

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheTableIsNeverOverfull(t *testing.T) {
	const most = 100
	table := newTable(most)
	var in atomic.Int64 // no more than there are: counted after they came, and until they go
	var group sync.WaitGroup
	for g := range uint64(8) {
		group.Go(func() {
			for i := range uint64(1000) {
				k := Key{Spec: keyA.Spec, Subject: strconv.FormatUint(i, 10)}
				mine := newEntry(k, i, 1, 1, 0)
				if table.add(mine) != mine {
					continue
				}
				if n := in.Add(1); n > most {
					t.Errorf("%d entries, want at most %d", n, most)
				}
				if i%8 != g {
					in.Add(-1)
					unlink(table, mine)
				}
			}
		})
	}
	group.Wait()
	if got, want := table.size.Load(), int64(len(table.appendAll(nil))); got != want {
		t.Errorf("counts %d, has %d", got, want)
	}
}

func TestAKeyOfTheSameHashHasNoEntry(t *testing.T) {
	long := strings.Repeat("a", 100)
	for _, k := range []Key{keyA, {Spec: keyA.Spec, Subject: long}} {
		table := newTable(10)
		e := table.add(newEntry(k, 1, 1, 1, 0))
		for _, other := range []Key{{Spec: k.Spec, Subject: k.Subject[1:] + "b"}, {Spec: &Spec{Policy: 2}, Subject: k.Subject}} {
			if got := table.find(1, other); got != nil {
				t.Errorf("found %+v", got.key)
			}
			if got := table.add(newEntry(other, 1, 1, 1, 0)); got != nil {
				t.Errorf("added %+v", got.key)
			}
		}
		if again := table.add(newEntry(k, 1, 1, 1, 0)); again != e {
			t.Error("added the same key twice")
		}
		table.unlink(newEntry(k, 1, 1, 1, 0))
		if got := table.size.Load(); got != 1 || table.find(1, k) != e {
			t.Errorf("counts %d, want the one that is there still: another was unlinked", got)
		}
	}
}

func TestAKeyOfTheSameHashHasNoDenial(t *testing.T) {
	tail, err := newTail(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.close()
	d := newDenial(Denial{Cost: 1, RetryAfter: time.Second}, 1, Stamp{}, 0)
	tail.add(1, keyA, d)
	tail.cache.Wait()
	if tail.find(1, keyA) != d {
		t.Error("not found under its own key")
	}
	for _, other := range []Key{{Spec: keyA.Spec, Subject: "b"}, {Spec: &Spec{Policy: 2}, Subject: "a"}} {
		if tail.find(1, other) != nil {
			t.Errorf("found under %+v", other)
		}
	}
}

// Keys share places of the front: each is found all the same, and none after it
// was unlinked, whoever came and went meanwhile.
func TestWhoSharesAPlaceIsFound(t *testing.T) {
	const most, each, places = 4, 2000, uint64(len(front{}))
	table := newTable(most)
	var group sync.WaitGroup
	for g := range uint64(most) {
		group.Go(func() {
			k := Key{Spec: keyA.Spec, Subject: strconv.FormatUint(g, 10)}
			hash := g * places // all of the same place
			for range each {
				e := table.add(newEntry(k, hash, 1, 1, 0))
				if got := table.find(hash, k); got != e {
					t.Errorf("found %p, want %p", got, e)
				}
				unlink(table, e)
				if got := table.find(hash, k); got != nil {
					t.Errorf("found %p, which is unlinked", got)
				}
			}
		})
	}
	group.Wait()
	if got := table.front.of(0).Load(); got != nil {
		t.Errorf("%q is in front, of an empty table", got.key.Subject)
	}
}

// Many add, find and drop the same few keys, all of one place of the front, while
// others come and go and the map grows and shrinks: a key never has two entries, and
// none is found once it was unlinked.
func TestAKeyHasOneEntryAndNoneThatIsDead(t *testing.T) {
	const keys, callers, rounds = 3, 8, 5000
	table := newTable(keys + callers*100)
	var shared [keys]contested
	var group sync.WaitGroup
	for g := range uint64(callers) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, g))
			for range rounds {
				i := random.Uint64N(keys)
				k, hash := Key{Spec: keyA.Spec, Subject: strconv.FormatUint(i, 10)}, 7+i*uint64(len(front{}))
				shared[i].add(t, table, newEntry(k, hash, 1, 1, 0))
				churn(table, random, g)
				shared[i].drop(t, table, k, hash)
			}
		})
	}
	group.Wait()
	for i := range shared {
		if c := &shared[i]; c.added.Load() == 0 || c.added.Load() == callers*rounds {
			t.Errorf("%d entries of key %d, want some, and others beaten", c.added.Load(), i)
		}
	}
	for _, e := range table.appendAll(nil) {
		unlink(table, e)
	}
	for i := range table.front {
		if e := table.front[i].Load(); e != nil {
			t.Errorf("%q is in front, of an empty table", e.key.Subject)
		}
	}
	if n := table.size.Load(); n != 0 {
		t.Errorf("counts %d, want none", n)
	}
}

// contested is what is known of a key that many add and drop.
type contested struct {
	live, added atomic.Int64
	gone        atomic.Pointer[entry] // the latest whose unlinking is over
}

func (c *contested) add(t *testing.T, table *table, mine *entry) {
	if table.add(mine) != mine {
		return
	}
	c.added.Add(1)
	if n := c.live.Add(1); n > 1 {
		t.Errorf("%d entries of %s at once", n, mine.key.Subject)
	}
}

// drop drops whichever entry the key has.
func (c *contested) drop(t *testing.T, table *table, k Key, hash uint64) {
	before := c.gone.Load()
	e := table.find(hash, k)
	if e == nil {
		return
	}
	if e == before {
		t.Errorf("found %p, which was unlinked before", e)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return
	}
	e.dead = true
	c.live.Add(-1)
	table.unlink(e)
	c.gone.Store(e)
}

// churn has up to 100 other entries come and go, some of them of the same place.
func churn(table *table, random *rand.Rand, caller uint64) {
	if random.IntN(16) > 0 {
		return
	}
	var list []*entry
	for i := range uint64(1 + random.IntN(100)) {
		hash := (1+caller)<<32 + i*uint64(random.IntN(2))*uint64(len(front{})) + i<<48 + 7
		e := newEntry(Key{Spec: keyA.Spec, Subject: "other" + strconv.FormatUint(hash, 10)}, hash, 1, 1, 0)
		if table.add(e) == e {
			list = append(list, e)
		}
	}
	for _, e := range list {
		unlink(table, e)
	}
}

func unlink(table *table, e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	table.unlink(e)
}

func TestTheSweeperEndsWithTheLastEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := startTier(t, &lender{grant: Grant{Units: 1}}, Config{})
		for range 2 {
			heatUp(tier, keyA)
			if !tier.sweeping.Load() {
				t.Error("nobody sweeps")
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if tier.sweeping.Load() || tier.crew.running != 0 {
				t.Errorf("%d goroutines run for nothing", tier.crew.running)
			}
		}
	})
}

// Distinct subjects, all refused: what they leave behind is bounded, and who is
// hot keeps its lease.
func TestAFloodOfSubjectsTakesNoMoreMemory(t *testing.T) {
	const denials, subjects = 1 << 18, 20_000
	tier, err := NewTier(generous{units: 1 << 20}, Config{DenialBytes: denials, Entries: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tier.Close(context.Background()) }()
	spec := &Spec{Policy: 1, Version: 1}
	flood := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			k := Key{Spec: spec, Subject: "client:" + strconv.Itoa(i)}
			if a, known := tier.decided(k, 1); known {
				t.Fatalf("%s: %+v, want not known", k.Subject, a)
			}
			tier.Observe(k, 1)
			tier.Denied(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		}
		tier.tail.cache.Wait() // what it has queued counts no more
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	warm := flood(0, subjects)
	after := flood(subjects, 4*subjects)
	if after > warm+1<<20 { // 60,000 denials more would be 18 MiB
		t.Errorf("%d KiB after %d subjects, %d KiB after %d", warm>>10, subjects, after>>10, 4*subjects)
	}
	if got := tier.Inspect(); got.Bytes > denials+2<<20 {
		t.Errorf("counts %d bytes, want no more than 2 MiB beside %d for denials", got.Bytes, denials)
	}
}
