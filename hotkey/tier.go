package hotkey

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Config is what a Tier is made with. Its zero value is a good default.
type Config struct {
	// Entries is how many keys may be hot at once; 0 means 50,000, of some 500
	// bytes each and the subject. Keys above it go to Redis.
	Entries int
	// DenialBytes bounds the denials known of keys that are not hot; 0 means
	// 16 MiB, for some 35,000 of them, and MaxDenialBytes is the most. A fifth
	// more is taken from the start, to tell which of them are worth it.
	DenialBytes int64
	// HotRate is how many requests a second make a key hot; 0, and less than 4 a
	// lease time, means 20, which is 4 a lease time.
	HotRate float64
	// Workers is how many asks for leases may be under way at once, each in a
	// goroutine; 0 means 32.
	Workers int
}

// MaxDenialBytes is the greatest DenialBytes.
const MaxDenialBytes = 64 << 30

// minHotRate is 4 requests a lease time: below it a lease saves nothing.
const minHotRate = 4 / (float64(LeaseTime) / float64(time.Second))

// check returns every fault of c.
func (c Config) check() error {
	var faults []error
	check := func(ok bool, field string, value any, reason string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s %v: %s", field, value, reason))
		}
	}
	check(c.Entries >= 0, "Entries", c.Entries, "must not be negative")
	check(c.DenialBytes >= 0 && c.DenialBytes <= MaxDenialBytes, "DenialBytes", c.DenialBytes, "must be 0 to 64 GiB")
	check(c.HotRate >= 0, "HotRate", c.HotRate, "must be a number that is not negative")
	check(c.Workers >= 0, "Workers", c.Workers, "must not be negative")
	return errors.Join(faults...)
}

// filled returns c with its defaults in place.
func (c Config) filled() Config {
	if c.Entries == 0 {
		c.Entries = 50_000
	}
	if c.DenialBytes == 0 {
		c.DenialBytes = 16 << 20
	}
	if c.Workers == 0 {
		c.Workers = 32
	}
	c.HotRate = max(c.HotRate, minHotRate)
	return c
}

// Tier knows of hot keys what decides them: leases and denials. It is safe for
// concurrent use. NewTier makes one; the zero Tier is useless.
type Tier struct {
	config Config
	asker  Asker
	seed   maphash.Seed
	base   time.Time // moment 0

	table *table
	tail  *tail
	heat  *heat
	turns *turns
	count totals

	asks     asks
	crew     crew
	sweeping atomic.Bool
	closed   atomic.Bool
	closing  chan struct{}   // closed with the tier
	life     context.Context // of what runs in the background
	end      context.CancelFunc
}

// NewTier returns a Tier that gets leases from asker. Close ends it. The error
// joins the faults of c, each with its field and value.
func NewTier(asker Asker, c Config) (*Tier, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.filled()
	tail, err := newTail(c.DenialBytes)
	if err != nil {
		return nil, err
	}
	t := &Tier{
		config: c, asker: asker, seed: maphash.MakeSeed(), base: time.Now(),
		table: newTable(c.Entries), tail: tail, heat: newHeat(), turns: &turns{},
		closing: make(chan struct{}),
	}
	t.life, t.end = context.WithCancel(context.Background())
	t.asks.most = c.Workers
	return t, nil
}

// now is the moment by the monotonic clock. No wall clock is ever compared.
func (t *Tier) now() moment { return moment(time.Since(t.base)) }

// Decide answers a request of cost units, if the answer is known here: it reports
// whether it is, and writes it to a, which is zero. Handed up from call to call
// it would cost as much as to find it. If it is not known, the request has to go
// to Redis, and Observe is to be told of it. Decide does no I/O, never waits, and
// allocates nothing.
func (t *Tier) Decide(a *Answer, k Key, cost int64) bool {
	hash := k.hash(t.seed)
	now := t.now()
	e := t.table.find(hash, k)
	if e == nil {
		return t.decideCold(a, k, hash, cost, now)
	}
	l := e.lease.Load()
	if l != nil && l.version == k.Spec.Version && (now < l.until && t.spend(a, e, l, cost, now) || t.starve(a, e, l, cost, now)) {
		return true
	}
	switch d := e.denial.Load(); {
	case d == nil:
		return false
	case d.is(k.Spec.Version, cost, now):
		d.answer(a, int(d.limit), d.retry, now)
	case !d.decideMore(a, k.Spec.Version, cost, now):
		return false
	}
	e.deny(cost)
	return true
}

// decideCold answers from what is known of a key that has no entry.
func (t *Tier) decideCold(a *Answer, k Key, hash uint64, cost int64, now moment) bool {
	voids := t.turns.voidsOf(hash)
	d := t.tail.find(hash, k)
	if d == nil || d.void != voids.Load() || !d.decide(a, k.Spec.Version, cost, now) {
		return false
	}
	t.count.tailDenied.Add(1)
	if e := t.warm(k, hash, cost, now); e != nil {
		e.learn(d, voids, now)
	}
	return true
}

// Stamp is to be taken before a call about k is sent, for Passed and Denied.
func (t *Tier) Stamp(k Key) Stamp {
	return Stamp{void: t.turns.voidsOf(k.hash(t.seed)).Load(), at: t.now()}
}

// Passed tells that units of k were charged, or may have been, by a call that was
// sent after s was taken. Whatever was refused before would wait longer now, so
// it isn't known any more. Denied of the same call takes the Stamp that it
// returns: what that call refused it refused after what it charged.
func (t *Tier) Passed(k Key, s Stamp) Stamp {
	hash := k.hash(t.seed)
	if void := t.turns.voidsOf(hash).Add(1); void == s.void+1 {
		s.void = void // nobody else came meanwhile
	}
	if e := t.table.find(hash, k); e != nil {
		e.pass()
	}
	return s
}

// passLocked is Passed of a lease.
func (t *Tier) passLocked(e *entry) {
	t.turns.voidsOf(e.hash).Add(1)
	e.denial.Store(nil)
}

// Denied tells that Redis refused d, in a call that was sent after s was taken.
// It is known until the end of its RetryAfter, and at most for DenialTTL.
func (t *Tier) Denied(k Key, s Stamp, d Denial) {
	hash := k.hash(t.seed)
	voids := t.turns.voidsOf(hash)
	now := t.now()
	known := newDenial(d, k.Spec.Version, s, now)
	if known.until <= now || len(k.Subject) > MaxSubject {
		return
	}
	if e := t.table.find(hash, k); e != nil {
		e.learn(known, voids, now)
		return
	}
	if known.void == voids.Load() {
		t.tail.learn(hash, k, known, now)
	}
}

// Forget ends what is known of denials of k at once, under every version of the
// policy: units have come back, or were reset. A call that is under way brings
// none either.
func (t *Tier) Forget(k Key) {
	hash := k.hash(t.seed)
	t.turns.of(hash).Add(1)
	t.turns.voidsOf(hash).Add(1)
	if e := t.table.find(hash, k); e != nil {
		e.forget()
	}
}

// Observe tells that a request of cost units went to Redis. A key that is asked
// for often enough becomes hot, and gets a lease in the background.
func (t *Tier) Observe(k Key, cost int64) {
	if t.closed.Load() || len(k.Subject) > MaxSubject {
		return
	}
	hash, now := k.hash(t.seed), t.now()
	if e := t.table.find(hash, k); e != nil {
		e.miss(cost)
		t.acquire(e, k, now)
		return
	}
	t.count.missed.Add(1)
	if e := t.warm(k, hash, cost, now); e != nil {
		t.acquire(e, k, now)
	}
}

// Left returns the units that this process may spend of k by itself: what Redis
// says is left does not include them.
func (t *Tier) Left(k Key) int64 {
	e := t.table.find(k.hash(t.seed), k)
	if e == nil {
		return 0
	}
	if l := e.lease.Load(); l != nil && l.version == k.Spec.Version {
		return l.Left()
	}
	return 0
}

// Close gives all leases back, and waits for that and for what else runs in the
// background until ctx ends, whose error it returns then. Nothing new becomes
// known from now on.
func (t *Tier) Close(ctx context.Context) error {
	if !t.closed.CompareAndSwap(false, true) {
		return t.crew.close(ctx)
	}
	close(t.closing)
	for _, e := range t.table.appendAll(nil) {
		t.giveUp(e)
	}
	stop := context.AfterFunc(ctx, t.end)
	defer stop()
	err := t.crew.close(ctx)
	t.end()
	t.tail.close()
	return err
}

// giveUp has what the entry holds given back. It waits for the mutex: an ask that
// ends just now either sees that the tier is closed, or is over then.
func (t *Tier) giveUp(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.trigger(e)
}

// warm counts a request for a key without an entry, and returns an entry for it
// once it is hot: nil before, and where the table is full.
func (t *Tier) warm(k Key, hash uint64, cost int64, now moment) *entry {
	rate := t.heat.observe(k, hash, 1, now)
	if rate < t.config.HotRate || t.table.full() || t.closed.Load() {
		return nil
	}
	e := t.table.add(newEntry(k, hash, rate, rate*float64(cost), now))
	if e != nil {
		t.keepSweeping()
	}
	return e
}
