// Package ledger judges a limiter from outside: it is told when each call was
// sent, when its answer came and what that was, and says how many units were
// admitted beyond the promise, and how many short of it. It does no I/O and
// reads no clock.
package ledger

import (
	"time"
)

// Outcome is what became of one call for one unit.
type Outcome uint8

// The outcomes.
const (
	Denied   Outcome = iota
	Admitted         // charged
	Unknown          // answered by the failure mode or an error: charged or not
	AtRisk           // admitted by a primary that was lost before its replica was known to have the charge
	NeverRan         // answered by the failure mode or an error, and surely not charged
	Known            // denied by what the process knew, without asking
)

// Span is the time from before a call was sent until after its answer was
// there: the decision lies somewhere in it. Both ends count from the start of
// the run.
type Span struct{ Sent, Replied time.Duration }

// Account is all that one subject was answered under one policy. The zero
// Account is that of a subject that never asked.
type Account struct {
	Asked    int64 // calls with a decision
	Admitted int64 // of them
	AtRisk   int64 // of those admitted
	Known    int64 // calls denied by what the process knew
	Unknown  int64 // calls without
	NeverRan int64 // calls without, that charged nothing
	Span     Span  // of all calls: the first sent, the last answered

	// Log, where not nil, keeps the single calls, so that every span within the
	// run can be judged and not the whole run alone.
	Log *Log
}

// Add enters one call.
func (a *Account) Add(at Span, o Outcome) {
	if a.Asked+a.Unknown+a.NeverRan == 0 {
		a.Span = at
	}
	a.Span.Sent = min(a.Span.Sent, at.Sent)
	a.Span.Replied = max(a.Span.Replied, at.Replied)
	switch o {
	case Unknown:
		a.Unknown++
		return
	case NeverRan:
		a.NeverRan++
		return
	case AtRisk:
		a.AtRisk++
		a.Admitted++
	case Admitted:
		a.Admitted++
	case Known:
		a.Known++
	case Denied:
	}
	a.Asked++
	if a.Log != nil {
		a.Log.add(at, o)
	}
}

// Log keeps each admission, and when a bucket was kept full without a break.
type Log struct {
	start    time.Time // of the run, by the shards' clocks; zero: unknown
	patience time.Duration
	admitted []Span
	busy     []busy
}

// busy is a time in which denials followed each other so closely that a bucket
// was never quite empty in between: all of its refill was taken.
type busy struct{ first, last Span }

// NewLog returns an empty log of a subject under these terms.
func NewLog(t Terms) *Log {
	l := &Log{}
	if len(t.Limits) == 1 && isBucket(t.Limits[0]) {
		room := capacity(t.Limits[0]) - 1 - t.waiting()
		l.patience = time.Duration(float64(max(0, room)) * emission(t.Limits[0]))
	}
	return l
}

// Since says when the run started, by the shards' clocks: then it can be told in
// which windows the admissions fell.
func (l *Log) Since(start time.Time) { l.start = start }

func (l *Log) add(at Span, o Outcome) {
	if o != Denied && o != Known {
		l.admitted = append(l.admitted, at)
		return
	}
	if l.patience == 0 {
		return
	}
	if n := len(l.busy); n > 0 && at.Replied-l.busy[n-1].last.Sent < l.patience {
		if b := &l.busy[n-1]; at.Sent > b.last.Sent {
			b.last = at
		}
		return
	}
	l.busy = append(l.busy, busy{first: at, last: at})
}
