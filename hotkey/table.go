package hotkey

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// table holds entries by the hash of what they count, never more than fit. What
// it holds it holds until it is told to drop it.
type table struct {
	entries *xsync.Map[uint64, *entry]
	size    atomic.Int64 // entries, and places taken for those about to be put in
	most    int64
}

func newTable(most int) *table {
	return &table{entries: xsync.NewMap[uint64, *entry](), most: int64(most)}
}

// find returns the entry of k, nil if it has none. Another key may have its
// hash, so the whole key is compared.
func (t *table) find(hash uint64, k Key) *entry {
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
	in, found := t.entries.LoadOrStore(e.hash, e)
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
