package hotkey

import "time"

// Source is what an Answer comes from.
type Source uint8

// The sources.
const (
	FromLease  Source = iota // a lease's units, spent here
	FromDenial               // what Redis refused, or a lease that is empty until the next
)

// Answer is a decision made here.
type Answer struct {
	Allowed bool
	Source  Source
	Limit   int // index of the limit that binds
	// Remaining is, of a lease, the units left in it and those left in Redis when
	// it was lent; of a denial, the units left then, which did not suffice.
	Remaining int64
	// RetryAfter is when to ask again, 0 if allowed: of what Redis refused, when
	// as many units would pass, by what was used then; of an empty lease, when the
	// next is asked for.
	RetryAfter time.Duration
	// ResetAfter is when nothing is used any more, as Redis said then.
	ResetAfter time.Duration

	// Spend is what was spent of a lease; its zero value: nothing.
	Spend Spend
}

// Spend is units spent of a lease: what Refund needs to give them back. It is
// small, and made without an allocation.
type Spend struct {
	lease *Lease
	what  uint64 // its number in the upper half, its cost in the lower: an Answer fits into registers so
}

func (s Spend) number() uint32 { return uint32(s.what >> 32) }

// Lease returns the lease that was spent, nil if none was.
func (s Spend) Lease() *Lease { return s.lease }

// Cost returns the units that were spent.
func (s Spend) Cost() int64 { return int64(uint32(s.what)) }

// Refund gives the units back to their lease, once.
func (s Spend) Refund() Refunded {
	if s.lease == nil {
		return RefundedBefore
	}
	return s.lease.refund(s)
}

// Unrefund forgets that Refund was called, after RefundOver led to a call that
// never ran, so that it may be called again.
func (s Spend) Unrefund() {
	if s.lease != nil {
		s.lease.refunds.remove(s.number())
	}
}

// Refunded is what became of a refund.
type Refunded uint8

// The outcomes of a refund.
const (
	RefundedHere   Refunded = iota // back in the lease
	RefundOver                     // the lease is over: it is Redis that has to take the units back
	RefundedBefore                 // or never spent: nothing to do
)
