package hotkey

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Snapshot is what a Tier knows of itself at one moment: plain data.
type Snapshot struct {
	Hot     []HotKey `json:"hot"`     // the hottest keys, at most 100, hottest first
	Entries int      `json:"entries"` // keys that are hot
	Cap     int      `json:"cap"`     // that may be
	Leases  int      `json:"leases"`  // that can be spent
	Held    int64    `json:"held"`    // units in them
	Bytes   int64    `json:"bytes"`   // all of this takes, about
	Counts  Counts   `json:"counts"`
}

// HotKey is one of the hottest keys.
type HotKey struct {
	Policy  string        `json:"policy"`
	Subject string        `json:"subject"`
	Part    int           `json:"part,omitempty"`  // of the subject, counted from 1; 0: it has none
	Parts   int           `json:"parts,omitempty"` // that it has
	Rate    float64       `json:"rate"`            // requests a second
	Lease   *LeaseState   `json:"lease"`           // nil: none that can be spent
	Denied  time.Duration `json:"denied"`          // requests are known to be denied for so long; 0: they aren't
	Cost    int64         `json:"cost"`            // of those requests, the least; 0: of none
	NoLease Reason        `json:"not_leased"`      // why it has no lease
}

// LeaseState is how a lease stands.
type LeaseState struct {
	Units int64         `json:"units"` // lent
	Left  int64         `json:"left"`  // of them
	Ends  time.Duration `json:"ends"`  // from now
}

// Counts count since the tier was made.
type Counts struct {
	Leased     int64 `json:"leased"`      // requests allowed by leases
	Denied     int64 `json:"denied"`      // requests denied by what entries know
	TailDenied int64 `json:"tail_denied"` // requests denied by what is known of other keys
	Missed     int64 `json:"missed"`      // requests that went to Redis
	Asks       int64 `json:"asks"`        // calls for leases and settlements
	Lent       int64 `json:"lent"`        // units
	GivenBack  int64 `json:"given_back"`  // units
	Forgotten  int64 `json:"forgotten"`   // units that were not given back, as far as is known
}

// totals are what Counts are read from. Entries keep their own counts, and add
// them from time to time.
type totals struct {
	leased, denied, tailDenied, missed, asks, lent, givenBack, forgotten atomic.Int64
}

func (c *totals) read() Counts {
	return Counts{
		Leased: c.leased.Load(), Denied: c.denied.Load(), TailDenied: c.tailDenied.Load(), Missed: c.missed.Load(),
		Asks: c.asks.Load(), Lent: c.lent.Load(), GivenBack: c.givenBack.Load(), Forgotten: c.forgotten.Load(),
	}
}

// settled counts what an ask has settled, late units of it in vain.
func (t *Tier) settled(r *errand, late int64) {
	for _, o := range r.owed {
		t.count.givenBack.Add(o.Unspent)
	}
	t.count.givenBack.Add(-late)
	t.count.forgotten.Add(late)
}

// forgotten counts what will never be settled.
func (t *Tier) forgotten(list []owed) {
	for _, o := range list {
		t.count.forgotten.Add(o.Unspent)
	}
}

// Inspect returns what the tier knows of itself. It asks nobody, and walks all
// entries.
func (t *Tier) Inspect() Snapshot {
	now := t.now()
	s := Snapshot{Hot: []HotKey{}, Cap: t.config.Entries, Bytes: t.bytes()}
	for _, e := range t.table.appendAll(nil) {
		e.mu.Lock()
		t.tallyLocked(e, now)
		e.mu.Unlock()
		s.add(e, now)
	}
	for _, c := range t.heat.top.list() {
		s.Hot = append(s.Hot, t.hotKey(c, now))
	}
	s.Counts = t.count.read()
	return s
}

// bytes returns what the tier takes beside its entries.
func (t *Tier) bytes() int64 {
	return int64(unsafe.Sizeof(heat{})+unsafe.Sizeof(turns{})+unsafe.Sizeof(front{})) + t.tail.bytes()
}

// entryBytes is what an entry with a lease and a denial takes beside its subject,
// in the table too.
const entryBytes = int64(unsafe.Sizeof(entry{})+unsafe.Sizeof(affairs{})+unsafe.Sizeof(Lease{})+unsafe.Sizeof(terms{})+unsafe.Sizeof(denial{})) + 64

func (s *Snapshot) add(e *entry, now moment) {
	s.Entries++
	s.Bytes += entryBytes + int64(len(e.key.Subject))
	if e.live(now) {
		s.Leases++
		s.Held += e.lease.Load().Left()
	}
}

func (t *Tier) hotKey(c counted, now moment) HotKey {
	k := HotKey{
		Policy: c.key.Spec.Name, Subject: c.key.Subject, Part: c.key.Spec.Part, Parts: c.key.Spec.Parts,
		Rate: t.heat.rate(c.count, now), NoLease: c.key.Spec.NoLease,
	}
	e := t.table.find(c.hash, c.key)
	switch {
	case e != nil:
		e.describe(&k, now)
	case k.NoLease != Leasable:
	case k.Rate < t.config.HotRate:
		k.NoLease = Cold
	default:
		k.NoLease = TableFull
	}
	return k
}

// describe says of k what the entry knows.
func (e *entry) describe(k *HotKey, now moment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.Rate, k.NoLease = e.demand.requests(), e.spec.NoLease
	if k.NoLease == Leasable {
		k.NoLease = e.reason
	}
	if l := e.lease.Load(); e.live(now) {
		k.Lease = &LeaseState{Units: int64(l.units), Left: l.Left(), Ends: now.untilOr0(l.until)}
		k.NoLease = Leasable
	}
	for d := e.denial.Load(); d != nil; d = d.beside() {
		if now < d.until && (k.Cost == 0 || d.cost < k.Cost) {
			k.Denied, k.Cost = now.untilOr0(d.until), d.cost
		}
	}
}
