package rule

import (
	"math"
	"time"
)

// LeaseTime is how long units that were lent may be spent, counted by who
// borrowed them from before asking. It is one constant of the protocol: all
// processes and releases that meet on a key must have the same.
const LeaseTime = 200 * time.Millisecond

const (
	// span is the lease time in µs, and an epoch's length: a bucket counts what
	// it lends by epochs, and what was lent in one has ended when the next ends.
	span = 200e3
	// memory is how long, in µs, demand is remembered: see [State.faded].
	memory = 2 * span
	// leastShare is the least worth lending: below it, who borrowed would ask
	// as often as without.
	leastShare = 4
	// farthestNext is the longest, in µs, that a borrower is told to wait.
	farthestNext = 250e3
)

// epochEnd is the µs at which the epoch that at lies in ends.
func epochEnd(at float64) float64 { return (math.Floor(at/span) + 1) * span }

// lends reports whether anything may be lent.
func (s State) lends() bool { return s.Lent > 0 || s.Before > 0 }

// faded forgets demand that is as old as it is remembered, or as far ahead: the
// clock stepped.
func (s State) faded(now float64) State {
	if math.Abs(now-s.Asked) >= memory {
		s.Demand, s.Asked = 0, 0
	}
	return s
}

// offer adds to the demand of s what was offered since its borrower last asked.
//
// The sum falls linearly, by its 2 lease times' part for each µs since it was
// last added to. An exponential has the same mean, but two libraries round it
// differently, and Lua and Go must agree to the last bit; of this each step is
// one that IEEE 754 rounds one way. Asked at a steady rate, in steps of any
// length up to 2 lease times, it settles at exactly what is offered in 2 lease
// times.
func (s State) offer(now, offered float64) State {
	age := max(now-s.Asked, 0)
	s.Demand = float64(s.Demand*max(memory-age, 0))/memory + offered
	s.Asked = 0
	if s.Demand > 0 {
		s.Asked = now
	}
	return s
}

// Leasable reports whether units of the limit are lent at all: of a bucket that
// holds four lease times of its rate at least, of a window of at least a second.
func (l Limit) Leasable() bool {
	switch l.Algorithm {
	case TokenBucket:
		return float64(l.Burst)*float64(l.Period) >= 4*span*float64(l.Rate)
	case SlidingWindow, FixedWindow:
		return l.Period >= second
	default:
		return false
	}
}

// Loan is the answer to who asked for a lease.
type Loan struct {
	Units int64 // lent, and charged; 0: no lease
	Next  int64 // µs for which to ask for nothing more; 0: ask when needed
}

// Settle ends a lease of size units, of which unspent come back. It was lent at
// the time at, µs by the shard's clock; s is current. It is credited to the
// epoch or window that it was lent in, at most what that still records as lent,
// and forgotten where that is neither the present one nor the one before. So is
// a lease that was lent after now: the clock stepped back, and another epoch may
// bear the number of its own.
func (l Limit) Settle(s State, now, at, size, unspent int64) State {
	switch l.ago(s, now, at) {
	case 0:
		taken := min(float64(size), s.Lent)
		s.Lent -= taken
		return l.back(s, min(float64(unspent), taken), 0)
	case 1:
		taken := min(float64(size), s.Before)
		s.Before -= taken
		return l.back(s, 0, min(float64(unspent), taken))
	default:
		return s
	}
}

// Credits reports whether a lease that was lent at the time at was credited when
// it was settled, by a call that left s at now: whether its epoch or window was
// the present one, or the one before.
func (l Limit) Credits(s State, now, at int64) bool {
	s, _ = l.Current(s, now)
	ago := l.ago(s, now, at)
	return ago == 0 || ago == 1
}

// ago returns how many epochs or windows before that of s, which is current, at
// lies: -1 if it lies after now.
func (l Limit) ago(s State, now, at int64) float64 {
	switch {
	case at > now:
		return -1
	case l.Algorithm == TokenBucket:
		return math.Floor(s.At/span) - math.Floor(float64(at)/span)
	default:
		return s.At - math.Floor(float64(at)/float64(l.Period))
	}
}

// back takes units off what is used: lent in the present epoch or window, and in
// the one before.
func (l Limit) back(s State, present, before float64) State {
	if l.Algorithm == TokenBucket {
		s.Used = max(tokenBucket{}.lent(l, s), s.Used-float64((present+before)*float64(l.Period)))
		return s
	}
	s.Used = max(0, s.Used-present)
	s.Prev = max(0, s.Prev-before)
	return s
}

// Lend takes in that offered units were offered to who asks since it last did,
// and lends it what it gets of want, s being current. The units are charged.
// What lends nothing leaves all but the demand as it is.
//
// Nothing is lent while a stored time lies ahead of now, so that now says in
// which epoch and window a lease was charged.
func (l Limit) Lend(s State, now, want, offered int64) (State, Loan) {
	if want > 0 || offered > 0 {
		s = s.offer(float64(now), float64(offered))
	}
	var loan Loan
	switch {
	case want < 1:
	case l.Algorithm == TokenBucket && s.At <= float64(now):
		loan = l.bucketLoan(s, float64(want))
	case l.Algorithm != TokenBucket && s.At == math.Floor(float64(now)/float64(l.Period)):
		loan = l.windowLoan(s, float64(now), float64(want))
	}
	s = l.Add(s, now, loan.Units)
	s.Lent += float64(loan.Units)
	return s, loan
}

// demand and supply are what is offered and what the rate gives, both for the
// time that demand is remembered and in units x period.
func (l Limit) demand(s State) float64 { return float64(s.Demand * float64(l.Period)) }
func (l Limit) supply() float64        { return float64(memory * float64(l.Rate)) }

// share is the part of want that the rate has for one who wants so much of
// such a demand.
func (l Limit) share(s State, want float64) float64 {
	demand, supply := l.demand(s), l.supply()
	if demand <= supply {
		return want
	}
	return math.Floor(float64(want*supply) / demand)
}

// room is how many units may still be lent: all leases together hold at most a
// quarter of what the limit can.
func (l Limit) room(s State) float64 {
	room := math.Floor(float64(l.Capacity())/4) - s.Lent
	if l.Algorithm == TokenBucket {
		room -= s.Before
	}
	return room
}

// bucketLoan shares out what the rate gives by who asks for how much, and
// paces those who ask where they want more than that. Too little for a fair
// share of a busy bucket is left to gather.
func (l Limit) bucketLoan(s State, want float64) Loan {
	demand, supply := l.demand(s), l.supply()
	most := min(l.share(s, want), l.room(s))
	if most < leastShare {
		return Loan{}
	}
	full := float64(float64(l.Burst) * float64(l.Period))
	units := float64(fits(s.Used, full, float64(l.Period), int64(most)))
	switch busy := demand*10 > supply*9; {
	case busy && units < most/2:
		return Loan{Next: span / 4}
	case units < leastShare:
		return Loan{}
	case demand <= supply:
		return Loan{Units: int64(units)}
	}
	// The time in which the rate gives this borrower's part as much, and less the
	// fuller the bucket: what slow borrowers leave is handed out.
	next := float64(pace*units) / want * (demand / supply) * (min(s.Used, full) / full)
	return Loan{Units: int64(units), Next: int64(min(math.Floor(next), farthestNext))}
}

// pace is half a lease time, the time that who asks wants units for, times a
// little more than the 1.2 by which it wants more than its demand: then a bucket
// that is asked for more than its rate stays nearly empty, and only nearly.
const pace = 1.3 * span / 2

// windowLoan lends as to a request: a window's units are there from its start,
// for whoever comes first. The last tenth of a window is for those who ask for
// single units, since what is lent and unspent at the window's end is lost.
func (l Limit) windowLoan(s State, now, want float64) Loan {
	a := l.algorithm()
	used, full := a.used(l, s, now), float64(float64(l.Rate)*a.unit(l))
	if (full-used)*10 < full || l.share(s, want) < leastShare {
		return Loan{}
	}
	if left := float64((s.At+1)*float64(l.Period)) - now; left < span/2 {
		want = math.Floor(float64(want*left) / (span / 2))
	}
	most := max(min(want, l.room(s)), 0)
	units := fits(used, full, a.unit(l), int64(most))
	if units < leastShare {
		return Loan{}
	}
	return Loan{Units: units}
}
