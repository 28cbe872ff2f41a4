package hotkey

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// DenialTTL is the longest that a denial is known, so that a refund, a reset or
// a raise made elsewhere shows soon.
const DenialTTL = 250 * time.Millisecond

// Denial is what Redis refused.
type Denial struct {
	Cost       int64         // units of the request
	RetryAfter time.Duration // until as many would pass
	Limit      int           // index of the limit that refused
	Remaining  int64         // units left, fewer than Cost
	ResetAfter time.Duration // until nothing is used any more
	// Waits says how long more units wait, which are refused as well; nil: that
	// is not known, and requests of more have to ask for themselves.
	Waits Waits
}

// Waits says how long requests of other costs wait.
type Waits interface {
	// Wait returns the index of the limit that refuses cost units, more than the
	// denial's, and the wait until they would pass, from when that was refused.
	// It allocates nothing.
	Wait(cost int64) (limit int, wait time.Duration)
	// Bytes returns how much memory it keeps.
	Bytes() int64
}

// Stamp is taken before a call is sent, so that a denial learnt from it is not
// known for longer than it holds, nor where units passed or came back meanwhile.
type Stamp struct {
	void uint32
	at   moment
}

// denial is a Denial as it is kept. It is never changed.
type denial struct {
	version   uint64
	cost      int64
	remaining int64
	until     moment // it is known
	retry     moment // as many units would pass
	reset     moment
	void      uint32 // what voids counted when the call was sent
	limit     int32
	more      *more // nil: nothing

	// All of that is one line of the processor's cache.
}

// more is what a denial knows of other costs.
type more struct {
	waits  Waits  // nil: nothing of greater ones
	learnt moment // what they are from
	beside *denial
}

// newDenial returns what is learnt now of a call that was sent after s. It is
// known for no longer than it surely holds, so counted from s; and who is told
// when to come again must not come too early, so that is counted from now.
func newDenial(d Denial, version uint64, s Stamp, now moment) *denial {
	known := &denial{
		version: version, cost: d.Cost, remaining: d.Remaining, limit: int32(d.Limit), void: s.void,
		until: s.at.add(min(d.RetryAfter, DenialTTL)), retry: now.add(d.RetryAfter), reset: now.add(d.ResetAfter),
	}
	if d.Waits != nil {
		known.more = &more{waits: d.Waits, learnt: now}
	}
	return known
}

// decide writes to a, which is zero, that a request of cost units is denied, and
// how long it has to wait, if that is known.
func (d *denial) decide(a *Answer, version uint64, cost int64, now moment) bool {
	if d.is(version, cost, now) {
		d.answer(a, int(d.limit), d.retry, now)
		return true
	}
	return d.decideMore(a, version, cost, now)
}

// is reports whether d is of that very cost.
func (d *denial) is(version uint64, cost int64, now moment) bool {
	return cost == d.cost && version == d.version && now < d.until
}

// decideMore is decide by what d knows of other costs.
func (d *denial) decideMore(a *Answer, version uint64, cost int64, now moment) bool {
	switch m := d.more; {
	case m == nil || version != d.version:
		return false
	case cost > d.cost && now < d.until && m.waits != nil:
		limit, wait := m.waits.Wait(cost)
		d.answer(a, limit, m.learnt.add(wait), now)
		return true
	default:
		return m.beside != nil && m.beside.decide(a, version, cost, now)
	}
}

func (d *denial) answer(a *Answer, limit int, retry, now moment) {
	a.Source, a.Limit, a.Remaining = FromDenial, limit, d.remaining
	a.RetryAfter, a.ResetAfter = now.untilOr0(retry), now.untilOr0(d.reset)
}

// beside returns the denial that is beside d.
func (d *denial) beside() *denial {
	if d.more == nil {
		return nil
	}
	return d.more.beside
}

// within reports whether all that d alone says is said by o alone.
func (d *denial) within(o *denial) bool {
	return o.until >= d.until && (o.cost == d.cost || o.cost < d.cost && o.more != nil && o.more.waits != nil)
}

// besides is how many denials of other costs are kept beside one.
const besides = 3

// with returns d with what known, which may be nil, says beyond it; or known
// itself, if that says all that d does.
func (d *denial) with(known *denial, now moment) *denial {
	var kept [besides]*denial
	n := 0
	for o := known; o != nil && o.version == d.version && o.void == d.void; o = o.beside() {
		if d.within(o) {
			return known
		}
		if n < besides && now < o.until && !o.within(d) {
			kept[n] = o
			n++
		}
	}
	var last *denial
	for n--; n >= 0; n-- {
		last = kept[n].before(last)
	}
	return d.before(last)
}

// before returns d with next, and nothing else, beside it.
func (d *denial) before(next *denial) *denial {
	if d.beside() == next {
		return d
	}
	first, m := *d, more{beside: next}
	if d.more != nil {
		m.waits, m.learnt = d.more.waits, d.more.learnt
	}
	first.more = &m
	return &first
}

// bytes returns what d and all beside it take.
func (d *denial) bytes() (n int64) {
	for ; d != nil; d = d.beside() {
		n += int64(unsafe.Sizeof(*d))
		if m := d.more; m != nil {
			n += int64(unsafe.Sizeof(*m))
			if m.waits != nil {
				n += m.waits.Bytes()
			}
		}
	}
	return n
}

// turns count what makes void what was learnt before, by a part of the key's
// hash: those who share a part lose theirs too, which costs a call. So nothing
// that is void comes in late, and what is in the cache, which takes in and
// deletes when it likes, need not be found to be removed.
type turns struct {
	forgotten [1 << 12]atomic.Uint32 // Forget
	voids     [1 << 16]atomic.Uint32 // Forget and Passed
}

func (t *turns) of(hash uint64) *atomic.Uint32 { return &t.forgotten[hash%uint64(len(t.forgotten))] }

// voidsOf is of what makes denials void: of far more parts, as far more does.
func (t *turns) voidsOf(hash uint64) *atomic.Uint32 { return &t.voids[hash%uint64(len(t.voids))] }
