package tally

import (
	"iter"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/internal/ledger"
)

// book holds the accounts of one policy's subjects. Each mutex guards those
// whose index leaves its own as the remainder.
type book struct {
	mu       [64]sync.Mutex
	accounts []ledger.Account
}

func (b *book) open(t ledger.Terms, subjects int) {
	b.accounts = make([]ledger.Account, subjects)
	for i := range min(watched, subjects) {
		b.accounts[i].Log = ledger.NewLog(t)
	}
}

func (b *book) add(c *Call, o ledger.Outcome) {
	mu := &b.mu[c.Subject%len(b.mu)]
	mu.Lock()
	defer mu.Unlock()
	b.accounts[c.Subject].Add(c.At, o)
}

func (b *book) all() iter.Seq[ledger.Account] { return slices.Values(b.accounts) }
