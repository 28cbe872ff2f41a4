package hotkey

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
)

// entry is a hot key: its lease, its denial, and how much is asked of it. Who
// decides reads and writes the atomic fields only.
type entry struct {
	// What a decision reads and writes: one line of the processor's cache, for
	// subjects that are short.
	first  *Spec // it was met under
	short  [24]byte
	size   uint16                 // of the subject: MaxSubject at most
	denied atomic.Uint32          // requests that were denied here since it was last tallied
	lease  atomic.Pointer[Lease]  // the latest, open or not
	denial atomic.Pointer[denial] // the latest

	*affairs
}

// affairs is what is known of an entry beside what decides.
type affairs struct {
	key      Key // as it was first met
	hash     uint64
	asking   atomic.Bool  // it waits for an ask, or one is under way
	wanted   atomic.Bool  // the ask is to be for a lease, not only to settle
	askAfter atomic.Int64 // moment before which asking makes no sense

	// What no lease served since it was last tallied.
	missed atomic.Uint32 // requests that went to Redis
	beyond atomic.Int64  // units above one each, of these and of those denied

	mu      sync.Mutex
	spec    *Spec // that leases are asked under
	owed    []owed
	demand  demand
	offered int64  // units since the last ask
	spends  uint32 // of its leases, since it was last tallied
	spent   int64  // units of those
	barren  uint8  // asks in a row that brought neither units nor a time for the next
	dead    bool   // out of the table
	reason  Reason // why the latest ask brought no lease
}

// owed is a settlement that has not been sent.
type owed struct {
	Settlement
	sent moment // the ask for the lease
	due  moment // it is sent by itself
}

// newEntry returns an entry of a key that is asked for so often. What was asked
// for so far goes with its first ask: of no demand Redis would lend all that is
// wanted, where the rate has nothing to share out.
func newEntry(k Key, hash uint64, requests, units float64, now moment) *entry {
	e := &entry{first: k.Spec, size: uint16(len(k.Subject)), affairs: &affairs{
		key: Key{Spec: k.Spec, Subject: strings.Clone(k.Subject)}, hash: hash, spec: k.Spec,
		demand: newDemand(requests, units, now), offered: int64(math.Ceil(units * demandStart.Seconds())),
	}}
	copy(e.short[:], k.Subject)
	return e
}

// is reports whether the entry is that of k.
func (e *entry) is(k Key) bool {
	n := len(k.Subject)
	if n > len(e.short) {
		return e.key.same(k)
	}
	return k.under(e.first) && int(e.size) == n && string(e.short[:n]) == k.Subject
}

// miss counts a request that went to Redis.
func (e *entry) miss(cost int64) {
	e.missed.Add(1)
	e.exceed(cost)
}

// deny counts a request that was denied here.
func (e *entry) deny(cost int64) {
	e.denied.Add(1)
	e.exceed(cost)
}

// exceed counts the units of a request above one: most have none, and it costs as
// much as to count the request.
func (e *entry) exceed(cost int64) {
	if cost > 1 {
		e.beyond.Add(cost - 1)
	}
}

// live reports whether the latest lease can be spent.
func (e *entry) live(now moment) bool {
	l := e.lease.Load()
	return l != nil && l.word.Load()&closedBit == 0 && now < l.until
}

// adopt has leases asked for under spec from now on.
func (e *entry) adopt(spec *Spec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spec.Version != spec.Version {
		e.spec = spec
		e.reason = Leasable
	}
}

// learn keeps d beside what is known, unless it is void by now.
func (e *entry) learn(d *denial, voids *atomic.Uint32, now moment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.void == voids.Load() {
		e.denial.Store(d.with(e.denial.Load(), now))
	}
}

// pass ends a denial.
func (e *entry) pass() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.denial.Store(nil)
}

// forget ends a denial, and lets an empty lease deny no more.
func (e *entry) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.denial.Store(nil)
	if l := e.lease.Load(); l != nil {
		l.pause.Store(0)
	}
}

// retireLocked closes the latest lease, and owes its settlement. It stays where
// it is, as it may still deny.
func (e *entry) retireLocked() {
	l := e.lease.Load()
	if l == nil {
		return
	}
	unspent, ok := l.close()
	if !ok || l.units == 0 {
		return
	}
	e.countLocked(l)
	e.owed = append(e.owed, owed{
		Settlement: Settlement{Token: l.token, Units: int64(l.units), Unspent: unspent},
		sent:       l.sent,
		due:        l.sent.add(settleTime),
	})
}

// minUnits is the smallest lease there is: below it, who leases asks as often as
// without.
const minUnits = 4

// wantLocked returns how many units to ask for: what is asked for in half a lease
// time, and a fifth more. 0: the entry has enough, or asking makes no sense.
func (e *entry) wantLocked(now moment) int64 {
	switch {
	case e.spec.NoLease != Leasable, int64(now) < e.askAfter.Load():
		return 0
	case e.live(now) && !e.lease.Load().low(now):
		return 0
	}
	want := e.demand.units() * (LeaseTime / 2).Seconds() * 1.2
	if want < minUnits {
		e.reason = SmallShare
		e.askAfter.Store(int64(now.add(grace))) // by then more is known
		return 0
	}
	return int64(min(math.Ceil(want), maxUnits))
}

// countLocked counts what l was spent since it was last counted.
func (e *entry) countLocked(l *Lease) {
	spends, units := l.spent()
	e.spends += spends - l.counted.spends
	if units > l.counted.spent { // it is less than before, where units were refunded
		e.spent += int64(units - l.counted.spent)
	}
	l.counted.spends, l.counted.spent = spends, units
}

// tallyLocked takes in what was asked for since the last tally, and returns it.
func (e *entry) tallyLocked(now moment) (spends, missed, denied int64) {
	if now <= e.demand.at {
		return 0, 0, 0
	}
	if l := e.lease.Load(); l != nil {
		e.countLocked(l)
	}
	spends, e.spends = int64(e.spends), 0
	missed, denied = int64(e.missed.Swap(0)), int64(e.denied.Swap(0))
	units := e.spent + missed + denied + e.beyond.Swap(0)
	e.spent = 0
	e.offered += units
	e.demand.add(float64(spends+missed+denied), float64(units), now)
	return spends, missed, denied
}

// settleTime is when a lease that ended early is settled by itself, if no ask
// came that could take it along: while Redis surely knows of it.
const settleTime = LeaseTime - LeaseTime/8
