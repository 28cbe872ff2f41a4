package ledger

import (
	"math"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Verdict is how far an account lies from the promise, in units.
type Verdict struct {
	Over, Under int64
	// Lost is units admitted twice over because a primary was killed that had
	// charged them and its replica hadn't. They aren't in Over.
	Lost int64
	// Exact says that one count alone would have been right.
	Exact bool
}

// Judge holds an account against its terms. Nothing may have been used of them
// before the run, and all clocks run alike during it; those that decide count
// whole µs.
//
// Over is judged on the whole run and, where there is a log, on every span in
// it: a bucket admits at most burst + rate x span, a sliding log its rate in any
// period; another window its rate in each window, as far as it is known when the
// run began.
//
// Under is what a subject that starts with nothing used has a right to: all it
// asks for up to the burst, or a window's rate; and, with a log, a bucket's
// whole refill for as long as it's asked for more, to one unit. What is unknown
// may have been charged, so it may be missing.
//
// Where units may be lent, so may those that leases hold: what is asked of Redis
// itself has a right to all but them, and a bucket that is asked for more may
// keep back them and what it refills while a denial is known.
//
// Where a primary was killed, its replica goes on from what it had received. The
// units at risk are those that it may not have: without them every span keeps to
// the limit, so no span is over by more than their number.
func Judge(t Terms, a Account) Verdict {
	most, least := a.Asked, a.Asked
	lent := t.lendable()
	if lent > 0 {
		least -= a.Known // an empty lease is refilled in a while
	}
	var v Verdict
	for _, l := range t.Limits {
		most = min(most, atMost(l, a.Span))
		least = min(least, capacity(l)-lent)
		v.Over = max(v.Over, overInSpans(l, a.Log))
	}
	v.Over = max(v.Over, a.Admitted-most)
	v.Lost = min(v.Over, a.AtRisk)
	v.Over -= v.Lost
	v.Under = max(0, least-a.Admitted-a.Unknown)
	if len(t.Limits) == 1 {
		v.Under = max(v.Under, underWhileBusy(t.Limits[0], a)-t.waiting())
	}
	v.Exact = most == least && a.Unknown == 0 && a.AtRisk == 0
	return v
}

// atMost returns how many units a limit may admit in all of a span.
func atMost(l shardlimit.Limit, at Span) int64 {
	length := at.Replied - at.Sent + grain
	periods := int64(length / l.Period) // whole ones
	switch l.Algorithm {
	case shardlimit.SlidingLog: // the span is covered by this many periods
		return l.Rate * (periods + 1)
	case shardlimit.SlidingWindow, shardlimit.FixedWindow: // it meets this many windows at most
		return l.Rate * (periods + 2)
	default:
		return capacity(l) + int64(math.Floor(float64(length)/emission(l)+rounding))
	}
}

// overInSpans returns the most units beyond the limit in any span of the log.
func overInSpans(l shardlimit.Limit, calls *Log) int64 {
	switch {
	case calls == nil:
		return 0
	case isBucket(l):
		return overBucket(calls.admitted, capacity(l), emission(l))
	case l.Algorithm == shardlimit.SlidingLog:
		return overPeriod(calls.admitted, l.Rate, l.Period)
	case calls.start.IsZero(): // which window a call fell in isn't known outside
		return 0
	case l.Algorithm == shardlimit.FixedWindow:
		return overWindow(calls.windows(l.Period), l.Rate)
	default:
		return overSliding(calls.windows(l.Period), l.Rate, l.Period)
	}
}

// underWhileBusy returns the units of refill that a bucket kept back while it
// was asked for more than it had.
//
// At a denial less than a unit is left. So from one denial to another, with no
// idle time between, what was admitted differs by less than a unit from what
// was refilled.
func underWhileBusy(l shardlimit.Limit, a Account) int64 {
	if a.Log == nil || !isBucket(l) {
		return 0
	}
	var under int64
	for _, b := range a.Log.busy {
		refill := int64(math.Floor(float64(b.last.Sent-b.first.Replied-grain)/emission(l))) - 1
		var admitted int64
		for _, at := range a.Log.admitted {
			if at.Replied >= b.first.Sent && at.Sent <= b.last.Replied {
				admitted++
			}
		}
		under = max(under, refill-admitted-a.Unknown)
	}
	return under
}

// grain is the step of the clocks that decide, which count whole µs: between two
// readings of one there may be that much more or less than truly went by.
const grain = time.Microsecond

// rounding is far below a unit, and far above what float64 loses here.
const rounding = 1e-6

func isBucket(l shardlimit.Limit) bool {
	return l.Algorithm == shardlimit.TokenBucket || l.Algorithm == shardlimit.GCRA
}

// capacity returns the units that pass at once where nothing is used.
func capacity(l shardlimit.Limit) int64 {
	if isBucket(l) && l.Burst != 0 {
		return l.Burst
	}
	return l.Rate
}

// emission returns the time, in ns, in which a bucket refills one unit.
func emission(l shardlimit.Limit) float64 {
	return float64(l.Period/time.Nanosecond) / float64(l.Rate)
}
