package rule

import "math"

// Grace is the longest, in µs, that a fixed window outlives its end, so that a
// clock that steps back by no more finds the earlier window with its count.
const Grace = 10e6

// fixedWindow counts the units of windows aligned to 1970. Where the state has
// a key for each window, only Used ever counts; where one key holds all, Prev
// keeps the window before, so that a clock that steps back over an edge
// forgets nothing.
type fixedWindow struct{}

func (fixedWindow) unit(Limit) float64 { return 1 }

func (fixedWindow) current(l Limit, s State, now float64) (State, bool) {
	period := float64(l.Period)
	index := math.Floor(now / period)
	switch ahead := s.At - index; {
	case ahead == 0 || ahead == 1:
		return s, false
	case ahead < 0:
		return s.turned(index), false
	case float64(s.At*period)-now > second:
		return s.turned(index), true
	default: // up to a second ahead: decide as at that window's start
		return s, false
	}
}

// earlier reports whether now lies in the window before the state's own.
func (fixedWindow) earlier(l Limit, s State, now float64) bool {
	return s.At-1 == math.Floor(now/float64(l.Period))
}

func (f fixedWindow) used(l Limit, s State, now float64) float64 {
	if f.earlier(l, s, now) {
		return s.Prev
	}
	return s.Used
}

func (f fixedWindow) add(l Limit, s State, now, units float64) State {
	if f.earlier(l, s, now) {
		s.Prev += units
	} else {
		s.Used += units
	}
	return s
}

func (fixedWindow) give(_ Limit, s State, _ float64, c Charge) State {
	return giveWindow(s, c)
}

// passes finds the edge after which the units pass: the start of the window
// before the state's own, of its own, or its end.
func (fixedWindow) passes(l Limit, s State, now, units float64) float64 {
	period, rate := float64(l.Period), float64(l.Rate)
	if edge := float64((s.At - 1) * period); edge > now && s.Prev+units <= rate {
		return edge
	}
	if edge := float64(s.At * period); edge > now && s.Used+units <= rate {
		return edge
	}
	return float64((s.At + 1) * period)
}

func (f fixedWindow) clear(l Limit, s State, now float64) float64 {
	switch period := float64(l.Period); {
	case s.Used > 0:
		return float64((s.At + 1) * period)
	case s.Prev > 0 && f.earlier(l, s, now):
		return float64(s.At * period)
	default:
		return now
	}
}

func (fixedWindow) ends(l Limit, s State, _ float64) float64 {
	period := float64(l.Period)
	return float64((s.At+1)*period) + min(period, Grace)
}
