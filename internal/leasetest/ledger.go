package leasetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/shardlimit/shardlimit/internal/rule"
)

// Ledger knows what was admitted, and judges it by the algorithm's own rule. The
// zero Ledger is useless; it is not safe for concurrent use.
//
// Of a bucket it keeps what was admitted and has not flowed out since, at most
// the burst at any moment: then no interval admits more than burst and rate x
// interval. Of a window it keeps what was admitted in it and in the one before.
type Ledger struct {
	limit rule.Limit // that holds now
	most  int64      // the greatest capacity of all that hold at times
	rate  int64      // and their greatest rate

	since     int64   // µs of real time
	level     float64 // bucket: units x period
	index     int64   // window
	prev, cur float64 // units
	waiting   []spent
}

// NewLedger returns one of a limit, under which nothing is admitted before the
// moment since, µs.
func NewLedger(l rule.Limit, since int64) *Ledger {
	return &Ledger{limit: l, most: l.Capacity(), rate: l.Rate, since: since}
}

// Admit notes units that were admitted at a moment, µs, no earlier than the one
// before. The error says that they are too many.
func (l *Ledger) Admit(at, units int64) error {
	l.later(at, at, units)
	return l.spend()
}

// spent is units admitted at a moment: by real time, and by the shard's clock.
type spent struct{ at, clock, units int64 }

// later notes units to be judged in the order of their times.
func (l *Ledger) later(at, clock, units int64) {
	l.waiting = append(l.waiting, spent{at, clock, units})
}

// spend judges what was noted.
func (l *Ledger) spend() error {
	slices.SortStableFunc(l.waiting, func(a, b spent) int { return cmp.Compare(a.at, b.at) })
	for _, s := range l.waiting {
		l.advance(s.at, s.clock)
		l.level += float64(s.units * l.limit.Period)
		l.cur += float64(s.units)
		if over := l.over(s.clock); over > 0 {
			return fmt.Errorf("%.6f units too many", over)
		}
	}
	l.waiting = l.waiting[:0]
	return nil
}

// over is how many units too many were admitted.
func (l *Ledger) over(clock int64) float64 {
	period, most := float64(l.limit.Period), float64(l.most)
	switch l.limit.Algorithm {
	case rule.TokenBucket:
		return l.level/period - most
	case rule.SlidingWindow:
		return (l.prev*(period-float64(clock%l.limit.Period))+l.cur*period)/period - most
	default:
		return l.cur - most
	}
}

// advance lets time pass.
func (l *Ledger) advance(now, clock int64) {
	l.level = math.Max(0, l.level-float64(max(now-l.since, 0)*l.rate))
	l.since = max(now, l.since)
	switch index := clock / l.limit.Period; index {
	case l.index:
	case l.index + 1:
		l.index, l.prev, l.cur = index, l.cur, 0
	default:
		l.index, l.prev, l.cur = index, 0, 0
	}
}

// refund takes an admission back, less what of it has flowed out since.
func (l *Ledger) refund(r receipt) {
	left := float64(r.Granted*l.limit.Period) - float64((l.since-r.at)*l.rate)
	l.level = math.Max(0, l.level-math.Max(left, 0))
	switch int64(r.At[0]) {
	case l.index:
		l.cur -= float64(r.Granted)
	case l.index - 1:
		l.prev -= float64(r.Granted)
	}
}

// reset forgets what was admitted. What is lent may still be spent, and counts
// then.
func (l *Ledger) reset() { l.level, l.prev, l.cur = 0, 0, 0 }

// covered reports an error unless what is stored covers all that was admitted
// and all that may yet be, and what is used of a bucket covers what is lent.
func (l *Ledger) covered(s rule.State, now, outstanding int64) error {
	if l.limit.Algorithm == rule.FixedWindow && int64(s.At) != l.index {
		return nil // what was settled is of another window
	}
	s, _ = l.limit.Current(s, now)
	unit, admitted, lent := 1.0, l.cur, 0.0
	if l.limit.Algorithm == rule.TokenBucket {
		unit, admitted, lent = float64(l.limit.Period), l.level, s.Lent+s.Before
	}
	switch free := float64(outstanding) * unit; {
	case s.Used < admitted+free:
		return fmt.Errorf("%.6f units are used, but %.6f were admitted and %d may be", s.Used/unit, admitted/unit, outstanding)
	case s.Used < lent*unit:
		return fmt.Errorf("%.6f units are used, but %.0f are lent", s.Used/unit, lent)
	case l.limit.Algorithm == rule.SlidingWindow && s.Prev < l.prev:
		return fmt.Errorf("%.0f units are used of the window before, but %.0f were admitted", s.Prev, l.prev)
	}
	return nil
}
