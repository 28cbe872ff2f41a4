package hotkey

import (
	"sync/atomic"
	"time"
)

// DenialTTL is the longest that a denial is known, so that a refund, a reset or
// a raise made elsewhere shows soon.
const DenialTTL = 250 * time.Millisecond

// Denial is what Redis refused.
type Denial struct {
	Cost       int64         // units of the request; more units are refused as well
	RetryAfter time.Duration // until as many would pass
	Limit      int           // index of the limit that refused
	Remaining  int64         // units left, fewer than Cost
	ResetAfter time.Duration // until nothing is used any more
}

// Stamp is taken before a call is sent, so that a denial learnt from it is not
// known for longer than it holds, nor after a Forget that came meanwhile.
type Stamp struct {
	turn uint32
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
	turn      uint32
	limit     int32

	_ [8]byte // a line of the processor's cache
}

// newDenial returns what is learnt now of a call that was sent after s. It is
// known for no longer than it surely holds, so counted from s; and who is told
// when to come again must not come too early, so that is counted from now.
func newDenial(d Denial, version uint64, s Stamp, now moment) *denial {
	return &denial{
		version: version, cost: d.Cost, remaining: d.Remaining, limit: int32(d.Limit), turn: s.turn,
		until: s.at.add(min(d.RetryAfter, DenialTTL)), retry: now.add(d.RetryAfter), reset: now.add(d.ResetAfter),
	}
}

// covers reports whether a request of cost units is denied.
func (d *denial) covers(version uint64, cost int64, now moment) bool {
	return cost >= d.cost && version == d.version && now < d.until
}

// within reports whether all that d covers is covered by o.
func (d *denial) within(o *denial) bool {
	return o != nil && o.version == d.version && o.turn == d.turn && o.cost <= d.cost && o.until >= d.until
}

// answer writes what d says now to a, which is zero.
func (d *denial) answer(a *Answer, now moment) {
	a.Source, a.Limit, a.Remaining = FromDenial, int(d.limit), d.remaining
	a.RetryAfter, a.ResetAfter = now.untilOr0(d.retry), now.untilOr0(d.reset)
}

// turns count what makes denials void, by a part of the key's hash: those who
// share a part lose theirs too, which costs a call. No denial comes in late then,
// and what is in the cache, whose deletions may wait long, need not be removed.
type turns [4096]atomic.Uint32

func (t *turns) of(hash uint64) *atomic.Uint32 { return &t[hash%uint64(len(t))] }
