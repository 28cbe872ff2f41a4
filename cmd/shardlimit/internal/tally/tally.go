// Package tally counts what a limiter answered: second by second for whoever
// watches, and subject by subject for the ledger.
package tally

import (
	"iter"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// watched is of how many subjects of each policy every call is logged: of the
// first, which ask the most. A log grows by no more than the limit admits.
const watched = 100

// Call is one call of a limiter and its answer.
type Call struct {
	Policy, Subject int // by index
	Shard           int // that served it; -1: none
	At              ledger.Span
	Result          shardlimit.Result
	Err             error
}

// outcome says what the ledger makes of the answer.
func (c *Call) outcome(atRisk bool) ledger.Outcome {
	switch {
	case c.Err != nil || c.Result.Source == shardlimit.FromFallback:
		return ledger.Unknown
	case c.Result.Allowed && atRisk:
		return ledger.AtRisk
	case c.Result.Allowed:
		return ledger.Admitted
	case c.Result.Source == shardlimit.FromDenial:
		return ledger.Known
	default:
		return ledger.Denied
	}
}

// Tally counts calls. It is safe for concurrent use, except that each Writer
// belongs to one goroutine.
type Tally struct {
	shards   int
	policies int
	subjects int
	writers  []*Writer
	books    []book
	exposed  exposures

	// mu guards the errors.
	mu     sync.Mutex
	errors int64
	first  error
}

// New returns a tally for some writers and shards, and for policies, each of
// these terms, that subjects, a number of them, ask under.
func New(writers, shards, subjects int, policies []ledger.Terms) *Tally {
	t := &Tally{shards: shards, policies: len(policies), subjects: subjects, books: make([]book, len(policies))}
	for i, terms := range policies {
		t.books[i].open(terms, subjects)
	}
	for range writers {
		t.writers = append(t.writers, &Writer{tally: t, second: newCounts(shards, len(policies))})
	}
	return t
}

// Writer returns one of the writers.
func (t *Tally) Writer(i int) *Writer { return t.writers[i] }

// Take returns what was counted since the last Take.
func (t *Tally) Take() Counts {
	sum := newCounts(t.shards, t.policies)
	for _, w := range t.writers {
		w.mu.Lock()
		sum.add(&w.second)
		w.second.reset()
		w.mu.Unlock()
	}
	return sum
}

// Accounts returns the accounts of a policy's subjects, once nothing is
// written any more.
func (t *Tally) Accounts(policy int) iter.Seq[ledger.Account] {
	return t.books[policy].all()
}

// Expose says that a shard's primary is about to be killed: what it admitted in
// calls that were answered after from, and sent before the end that the caller
// stores when the primary is gone, is at risk.
func (t *Tally) Expose(shard int, from time.Duration) (gone func(end time.Duration)) {
	return t.exposed.add(shard, from)
}

// Errors returns how many calls ended with an error, and the first one.
func (t *Tally) Errors() (n int64, first error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errors, t.first
}

func (t *Tally) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors++
	if t.first == nil {
		t.first = err
	}
}

// Writer counts the calls of one goroutine.
type Writer struct {
	tally *Tally

	// mu guards what a watcher takes.
	mu     sync.Mutex
	second Counts
}

// Record counts one call.
func (w *Writer) Record(c *Call) {
	w.tally.books[c.Policy].add(c, c.outcome(w.tally.exposed.cover(c)))
	if c.Err != nil {
		w.tally.note(c.Err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.second.record(c)
}
