package hotkey

import (
	"math"
	"sync/atomic"
	"time"
)

// Lease is units charged in Redis that this process may spend by itself, until
// it ends. It is spent by one compare-and-swap of one word, which holds what is
// left, how often it was spent and whether it is closed: so no unit is spent
// twice, and none after it was given back.
//
//	bit 63  closed
//	62-32   spends so far: the next one's number
//	31-0    units left
type Lease struct {
	// What a spend reads: one line of the processor's cache.
	word      atomic.Uint64
	pause     atomic.Int64 // moment until which it denies once it is empty; 0: it doesn't
	version   uint64       // of the policy, which may spend it
	until     moment       // it ends
	reset     moment       // nothing is used any more, as seen when it was lent
	remaining int64        // in Redis, when it was lent
	units     uint32
	limit     int32

	*terms // no decision reads them: a line that came along would keep another lease out of the cache
}

// terms are what a lease was lent by, and what its end takes.
type terms struct {
	sent    moment // the ask for it
	now     func() moment
	home    *Tier // it is of
	key     Key
	token   Token
	refunds marks
	denies  atomic.Int64                   // moment from which it denies nothing, whatever comes of the next ask
	counted struct{ spends, spent uint32 } // already; guarded by its entry's mutex
}

// moment is a time since the tier was made, by the monotonic clock, in ns.
type moment int64

func (m moment) add(d time.Duration) moment        { return m + moment(d) }
func (m moment) since(o moment) time.Duration      { return time.Duration(m - o) }
func (m moment) untilOr0(end moment) time.Duration { return max(0, time.Duration(end-m)) }

// maxUnits is the largest lease: more than a quarter of the largest burst.
const maxUnits = math.MaxUint32

const (
	closedBit = 1 << 63
	oneSpend  = 1 << 32
	leftMask  = oneSpend - 1
	seqMask   = 1<<31 - 1
)

// newLease returns the lease that g grants, which was asked for at sent. It ends
// a lease time after that, however long the answer took: so before Redis thinks
// so. One of no units, which only denies, never begins.
func newLease(key Key, g Grant, sent moment) *Lease {
	until := sent.add(LeaseTime)
	switch {
	case g.Units == 0:
		until = sent
	case g.Until > 0:
		until = min(until, sent.add(g.Until))
	}
	l := &Lease{
		version: key.Spec.Version, until: until, reset: sent.add(g.ResetAfter),
		remaining: g.Remaining, units: uint32(g.Units), limit: int32(g.Limit),
		terms: &terms{sent: sent, key: key, token: g.Token},
	}
	l.word.Store(uint64(g.Units))
	return l
}

// spend takes cost units. It reports false, and what is left, if there are not
// as many or the lease is closed.
func (l *Lease) spend(cost int64) (left int64, seq uint32, ok bool) {
	for {
		w := l.word.Load()
		left = int64(w & leftMask)
		if w&closedBit != 0 || left < cost {
			return left, 0, false
		}
		if l.word.CompareAndSwap(w, w-uint64(cost)+oneSpend) {
			return left - cost, uint32(w >> 32), true
		}
	}
}

// close ends the lease, and returns what nobody spent. Who holds it still can't
// spend it any more. Only the first call counts: it reports false if the lease
// was closed.
func (l *Lease) close() (unspent int64, ok bool) {
	for {
		w := l.word.Load()
		if w&closedBit != 0 {
			return 0, false
		}
		if l.word.CompareAndSwap(w, w|closedBit) {
			return int64(w & leftMask), true
		}
	}
}

// Left returns the units left, 0 once it has ended.
func (l *Lease) Left() int64 {
	w := l.word.Load()
	if w&closedBit != 0 || l.now() >= l.until {
		return 0
	}
	return int64(w & leftMask)
}

// Key returns what the lease is of.
func (l *Lease) Key() Key { return l.key }

// Of reports whether the lease is t's.
func (l *Lease) Of(t *Tier) bool { return l.home == t }

// Token returns what Redis knows the lease by.
func (l *Lease) Token() Token { return l.token }

// rest lets the lease deny until pause, once it is empty, by what was said to an ask
// that was sent then. All told, the grace included, that holds for DenialTTL from
// there on, as a denial does.
func (l *Lease) rest(pause, sent moment) {
	denies := sent.add(DenialTTL)
	l.denies.Store(int64(denies))
	l.pause.Store(int64(min(pause, denies.add(-grace))))
}

// ending reports whether it is time to ask for the next: a fifth of its units or
// of its time is left.
func (l *Lease) ending(left int64, now moment) bool {
	return left <= int64(l.units/5) || now >= l.until.add(-LeaseTime/5)
}

// low is ending of what is left now.
func (l *Lease) low(now moment) bool { return l.ending(int64(l.word.Load()&leftMask), now) }

// spent returns how often it was spent, and the units spent and not refunded.
func (l *Lease) spent() (spends, units uint32) {
	w := l.word.Load()
	return uint32(w >> 32 & seqMask), l.units - uint32(w&leftMask)
}

// empty reports whether it has no units left.
func (l *Lease) empty() bool { return l.word.Load()&leftMask == 0 }

// refund puts what s spent back while the lease lives, and notes it whether it
// does or not.
func (l *Lease) refund(s Spend) Refunded {
	if !l.refunds.add(s.number()) {
		return RefundedBefore
	}
	for {
		w := l.word.Load()
		if w&closedBit != 0 || l.now() >= l.until {
			return RefundOver
		}
		if l.word.CompareAndSwap(w, w+uint64(s.Cost())) {
			return RefundedHere
		}
	}
}
