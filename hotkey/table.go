package hotkey

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// table holds entries by the hash of what they count, never more than fit. What
// it holds it holds until it is told to drop it.
type table struct {
	entries *xsync.Map[uint64, *entry]
	front   *front
	size    atomic.Int64 // entries, and places taken for those about to be put in
	most    int64
}

func newTable(most int) *table {
	return &table{entries: xsync.NewMap[uint64, *entry](), front: &front{}, most: int64(most)}
}

// front has a place for an entry by its hash: most decisions find theirs there,
// for a quarter of what the map takes. What is in it is in the map too, as both
// change under the map's lock; who finds another's entry in its place goes to
// the map.
type front [1 << 16]atomic.Pointer[entry]

// of returns the place of a hash.
func (f *front) of(hash uint64) *atomic.Pointer[entry] { return &f[hash%uint64(len(f))] }

// find returns the entry of k, nil if it has none. Another key may have its
// hash, so the whole key is compared.
func (t *table) find(hash uint64, k Key) *entry {
	if e := t.front.of(hash).Load(); e != nil && e.is(k) {
		return e
	}
	if e, ok := t.entries.Load(hash); ok && e.is(k) {
		return e
	}
	return nil
}

// full reports whether there is no place for one more.
func (t *table) full() bool { return t.size.Load() >= t.most }

// add puts e in, unless its key has an entry already, and returns the one that
// is in then: nil if the table is full, or another key has the same hash.
func (t *table) add(e *entry) *entry {
	if t.size.Add(1) > t.most {
		t.size.Add(-1)
		return nil
	}
	in, found := t.entries.LoadOrCompute(e.hash, func() (*entry, bool) {
		t.front.of(e.hash).Store(e)
		return e, false
	})
	if !found {
		return e
	}
	t.size.Add(-1)
	if !in.key.same(e.key) {
		return nil
	}
	return in
}

// unlink takes e out, and nothing else. Its mutex is held, so that nobody who
// waits for it comes to an entry that is dead and still in the table.
func (t *table) unlink(e *entry) {
	t.entries.Compute(e.hash, func(in *entry, found bool) (*entry, xsync.ComputeOp) {
		if !found || in != e {
			return in, xsync.CancelOp
		}
		t.front.of(e.hash).CompareAndSwap(e, nil)
		t.size.Add(-1)
		return nil, xsync.DeleteOp
	})
}

// appendAll appends the entries there are to list, for a walk without the table's
// locks.
func (t *table) appendAll(list []*entry) []*entry {
	t.entries.Range(func(_ uint64, e *entry) bool {
		list = append(list, e)
		return true
	})
	return list
}
