package hotkey

import (
	"strings"
	"unsafe"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/puzpuzpuz/xsync/v4"
)

// tail holds the denials of keys that have no entry, as many as fit into its
// bytes. It may drop or forget any of them: that costs a call.
type tail struct {
	cache *ristretto.Cache[uint64, known]
	// open is held for reading by who uses the cache: its Close may run beside
	// nothing else.
	open   *xsync.RBMutex
	closed bool
}

// known is a denial under its whole key: another may have the same hash.
type known struct {
	key    Key
	denial *denial
}

// knownBytes is what a denial takes beside itself and its subject: the struct, and
// what ristretto says that it needs for an item.
const knownBytes = int64(unsafe.Sizeof(known{})) + 160

// meanBytes is what most denials take in all, or somewhat less.
const meanBytes = knownBytes + int64(unsafe.Sizeof(denial{})) + 32

func newTail(bytes int64) (*tail, error) {
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, known]{
		NumCounters:        max(10*bytes/meanBytes, 100),
		MaxCost:            bytes,
		BufferItems:        64,
		IgnoreInternalCost: true, // it is in knownBytes
	})
	if err != nil {
		return nil, err
	}
	return &tail{cache: cache, open: xsync.NewRBMutex()}, nil
}

// find returns the denial of k, nil if none is known.
func (t *tail) find(hash uint64, k Key) *denial {
	token := t.open.RLock()
	defer t.open.RUnlock(token)
	if t.closed {
		return nil
	}
	if v, ok := t.cache.Get(hash); ok && v.key.same(k) {
		return v.denial
	}
	return nil
}

// learn keeps d beside what is known of k.
func (t *tail) learn(hash uint64, k Key, d *denial, now moment) {
	known := t.find(hash, k)
	if all := d.with(known, now); all != known {
		t.add(hash, k, all)
	}
}

func (t *tail) add(hash uint64, k Key, d *denial) {
	token := t.open.RLock()
	defer t.open.RUnlock(token)
	if t.closed {
		return
	}
	k.Subject = strings.Clone(k.Subject)
	t.cache.Set(hash, known{key: k, denial: d}, knownBytes+d.bytes()+int64(len(k.Subject)))
}

// bytes returns what the denials take.
func (t *tail) bytes() int64 {
	token := t.open.RLock()
	defer t.open.RUnlock(token)
	if t.closed {
		return 0
	}
	return t.cache.MaxCost() - t.cache.RemainingCost()
}

func (t *tail) close() {
	t.open.Lock()
	defer t.open.Unlock()
	if !t.closed {
		t.closed = true
		t.cache.Close()
	}
}
