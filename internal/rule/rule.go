// Package rule holds the five algorithms as pure arithmetic: given what is
// stored of a limit and the time, it says what passes, what is left and when
// more will pass. The Lua scripts decide by the same arithmetic, expression by
// expression, so that an answer derived here from a script's reply is the one
// the script will give.
//
// Times are whole µs since 1970. Amounts are float64, as in Lua, and whole:
// every algorithm scales its units (see [Limit.unit]) until no fraction is
// left, so that sums are exact up to 2^53 and right to 16 digits beyond.
// Products are converted explicitly, so that no platform fuses a product and a
// sum into one rounding.
package rule

import "math"

// whole is the µs from which a float64 can't tell neighbours apart: in the year
// 2255. Only debt upon debt waits as long as that.
const whole = 1 << 53

// Algorithm names the rule by which a limit decides.
type Algorithm uint8

// The algorithms. TokenBucket is the zero value.
const (
	TokenBucket Algorithm = iota
	GCRA
	SlidingWindow
	SlidingLog
	FixedWindow
)

// String returns the algorithm's name, as in "token_bucket".
func (a Algorithm) String() string {
	switch a {
	case TokenBucket:
		return "token_bucket"
	case GCRA:
		return "gcra"
	case SlidingWindow:
		return "sliding_window"
	case SlidingLog:
		return "sliding_log"
	case FixedWindow:
		return "fixed_window"
	default:
		return "unknown"
	}
}

// second is one second in µs: the farthest that a stored time may lie ahead.
const second = 1e6

// Limit is one limit in the arithmetic's own terms. It must be valid: rates
// and periods at least 1, and a burst of at least 1.
type Limit struct {
	Algorithm Algorithm
	Rate      int64 // units per Period
	Period    int64 // µs
	Burst     int64 // units at once; the window algorithms do not read it
}

// Capacity returns how many units the limit can hold at once: its burst, or
// the rate of a window.
func (l Limit) Capacity() int64 {
	if l.Algorithm == TokenBucket || l.Algorithm == GCRA {
		return l.Burst
	}
	return l.Rate
}

// State is what is stored of one limit. The zero State says that nothing is
// used. What the fields mean depends on the algorithm:
//
//	              At                      Used                    Prev           Leave
//	token_bucket  µs when Used was true   units x period
//	gcra          TAT, ticks (see Tick)
//	windows       the window's index      units of that window    of the one before
//	sliding_log   score of the newest     entries in the window                  score of the entry that
//	              entry, µs                                                      must leave before more passes
//
// The other fields are zero unless leases of the limit are or were asked for.
type State struct {
	At, Used, Prev, Leave float64

	// Lent is the units lent and not settled yet: of a bucket in the epoch of
	// At, of a window those charged to it. Before is the same of the epoch or
	// the window before.
	Lent, Before float64
	// Demand is what was offered to those who ask for leases, in units: a sum
	// that decayed until Asked, µs.
	Demand, Asked float64
}

// turned brings the state of a window to the window of another index. Where
// that lies behind, the clock stepped back, and all that counted counts there.
func (s State) turned(index float64) State {
	next := State{At: index, Demand: s.Demand, Asked: s.Asked}
	switch {
	case s.At > index:
		next.Used, next.Lent = s.Used+s.Prev, s.Lent+s.Before
	case s.At == index-1:
		next.Prev, next.Before = s.Used, s.Lent
	}
	return next
}

// algorithm is the arithmetic of one algorithm. Each method takes a State that
// is current, unless it says otherwise, and now in µs.
type algorithm interface {
	// unit is one unit in the scale of used.
	unit(l Limit) float64
	// current brings a stored state to now, and reports whether its time lay
	// so far ahead that it had to be pulled back.
	current(l Limit, s State, now float64) (State, bool)
	// used is what counts against the capacity at now, in scaled units.
	used(l Limit, s State, now float64) float64
	// add charges units.
	add(l Limit, s State, now, units float64) State
	// give takes back what r charged and has not decayed since.
	give(l Limit, s State, now float64, r Charge) State
	// passes guesses the µs at which units more would pass, where they do not
	// at now; the guess may be off by a few µs.
	passes(l Limit, s State, now, units float64) float64
	// clear is the µs from which nothing is used any more.
	clear(l Limit, s State, now float64) float64
	// ends is the µs from which the state need not be stored any more.
	ends(l Limit, s State, now float64) float64
}

func (l Limit) algorithm() algorithm {
	switch l.Algorithm {
	case GCRA:
		return gcra{}
	case SlidingWindow:
		return slidingWindow{}
	case SlidingLog:
		return slidingLog{}
	case FixedWindow:
		return fixedWindow{}
	default:
		return tokenBucket{}
	}
}

// Charge is what one decision charged to one limit: the moment by the shard's
// clock, the units, and the At of the state that it left.
type Charge struct {
	Now     int64 // µs
	Granted int64 // units
	At      float64
}

// Charged returns what a decision charged, s being the state that it left.
func (l Limit) Charged(s State, now, granted int64) Charge {
	c := Charge{Now: now, Granted: granted, At: s.At}
	if f := (fixedWindow{}); l.Algorithm == FixedWindow && f.earlier(l, s, float64(now)) {
		c.At-- // the clock stepped back over an edge: see fixedWindow.add
	}
	return c
}

// Current brings a stored state to now, and reports whether its time lay more
// than a second ahead and was pulled back: then it is stored even where
// nothing is charged, or each denial would compute it anew and nothing would
// ever thaw.
func (l Limit) Current(s State, now int64) (cur State, late bool) {
	cur, late = l.algorithm().current(l, s, float64(now))
	return cur.faded(float64(now)), late
}

// Fits returns how many of count requests of cost units each pass together, s
// being current.
func (l Limit) Fits(s State, now, cost, count int64) int64 {
	a := l.algorithm()
	unit := a.unit(l)
	used, full := a.used(l, s, float64(now)), float64(float64(l.Capacity())*unit)
	return fits(used, full, float64(float64(cost)*unit), count)
}

// fits returns the greatest n up to count for which used + n*each <= full. The
// quotient may be off by one where it is near a whole number, so the predicate
// settles it: n and its neighbours are tried.
func fits(used, full, each float64, count int64) int64 {
	holds := func(n float64) bool { return used+float64(n*each) <= full }
	most := float64(count)
	n := math.Floor((full - used) / each)
	n = min(max(n, 0), most)
	if n < most && holds(n+1) {
		n++
	} else if n > 0 && !holds(n) {
		n--
	}
	return int64(n)
}

// Add charges units to s, which is current.
func (l Limit) Add(s State, now, units int64) State {
	return l.algorithm().add(l, s, float64(now), float64(units))
}

// Give takes back from s, which is current, what c charged and has not decayed
// since.
func (l Limit) Give(s State, now int64, c Charge) State {
	return l.algorithm().give(l, s, float64(now), c)
}

// Ends returns the µs from which s, which is current, need not be stored any
// more: nothing is used then, whatever the clock does within its bounds.
func (l Limit) Ends(s State, now int64) float64 {
	ends := l.algorithm().ends(l, s, float64(now))
	if s.Demand > 0 {
		ends = max(ends, s.Asked+memory)
	}
	return ends
}

// Remaining returns how many units would still pass at now, s being as stored.
// It is never negative.
func (l Limit) Remaining(s State, now int64) int64 {
	cur, _ := l.Current(s, now)
	return l.Fits(cur, now, 1, l.Capacity())
}

// RetryAfter returns the least wait, in µs, after which cost units pass, s
// being as stored: 0 where they pass at now. A cost above the capacity never
// passes: the caller must have refused it.
func (l Limit) RetryAfter(s State, now, cost int64) int64 {
	a := l.algorithm()
	from := float64(now)
	cur, late := a.current(l, s, from)
	if late {
		// As the call that meets it now stores it. From s itself every later
		// moment would be pulled back anew, and none would pass.
		s = cur
	}
	passes := func(at float64) bool {
		cur, _ := a.current(l, s, at)
		unit := a.unit(l)
		return a.used(l, cur, at)+float64(float64(cost)*unit) <= float64(float64(l.Capacity())*unit)
	}
	if passes(from) {
		return 0
	}
	return wait(least(from, a.passes(l, cur, from, float64(cost)), passes) - from)
}

// least returns the least whole number above from, where holds is false, at
// which it is true. It looks about a guess, twice as far each time: where
// numbers are large, a window's weight is the same to a float64 for millions of
// µs about an edge.
func least(from, guess float64, holds func(float64) bool) float64 {
	low, high := from, max(guess, from+1)
	if high >= whole {
		return high
	}
	step := 1.0
	if holds(high) {
		for high-step > low && holds(high-step) {
			high -= step
			step *= 2
		}
		low = max(high-step, low)
	} else {
		for high < whole && !holds(high) {
			low = high
			high += step
			step *= 2
		}
	}
	for high-low > 1 {
		if mid := math.Floor((low + high) / 2); holds(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// ResetAfter returns the wait, in µs, after which nothing is used any more, s
// being as stored.
func (l Limit) ResetAfter(s State, now int64) int64 {
	a := l.algorithm()
	cur, _ := a.current(l, s, float64(now))
	return wait(a.clear(l, cur, float64(now)) - float64(now))
}

// wait returns µs as an integer: at least 0, and at most the greatest there is.
// Debt upon debt goes beyond.
func wait(micros float64) int64 {
	if !(micros < math.MaxInt64) {
		return math.MaxInt64
	}
	return int64(max(micros, 0))
}

// Unused returns s, which is current, with nothing used but what is lent.
func (l Limit) Unused(s State, now int64) State {
	switch l.Algorithm {
	case GCRA:
		return State{At: ticks(float64(now))}
	case TokenBucket:
		s.Used = tokenBucket{}.lent(l, s)
	default:
		s.Used, s.Prev = min(s.Used, s.Lent), min(s.Prev, s.Before)
	}
	return s
}
