package api

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/shardlimit/shardlimit"
)

// receipts keep the latest charges that somebody may want back, by names that
// can't be guessed. The oldest is forgotten for a new one.
type receipts struct {
	instance string // begins each name of this daemon's

	mu    sync.Mutex
	kept  map[string]shardlimit.Result
	names []string // a ring, in the order in which they came
	next  int      // of names
}

func newReceipts(most int) *receipts {
	return &receipts{
		instance: rand.Text()[:8], kept: map[string]shardlimit.Result{},
		names: make([]string, max(1, most)),
	}
}

// keep returns the name of a charge.
func (k *receipts) keep(r shardlimit.Result) string {
	name := k.instance + "-" + rand.Text()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.kept, k.names[k.next])
	k.kept[name], k.names[k.next] = r, name
	k.next = (k.next + 1) % len(k.names)
	return name
}

// find returns the charge of this name, if it is still known.
func (k *receipts) find(name string) (shardlimit.Result, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, known := k.kept[name]
	return r, known
}

// elsewhere reports whether the name is of another daemon, or of this one
// before it was started anew.
func (k *receipts) elsewhere(name string) bool {
	instance, _, ok := strings.Cut(name, "-")
	return ok && instance != k.instance
}
