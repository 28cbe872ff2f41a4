package rule

import "math"

// slidingWindow weighs the previous window by the part of it that the last
// period still covers. What is used is kept in units x µs, so that it is whole.
type slidingWindow struct{}

func (slidingWindow) unit(l Limit) float64 { return float64(l.Period) }

func (slidingWindow) current(l Limit, s State, now float64) (State, bool) {
	period := float64(l.Period)
	index := math.Floor(now / period)
	switch {
	case s.At > index: // the clock stepped back
		if float64(s.At*period)-now > second {
			return s.turned(index), true
		}
		return s, false
	case s.At == index:
		return s, false
	default:
		return s.turned(index), false
	}
}

func (slidingWindow) used(l Limit, s State, now float64) float64 {
	period := float64(l.Period)
	elapsed := max(now-float64(s.At*period), 0)
	return float64(s.Prev*(period-elapsed)) + float64(s.Used*period)
}

func (slidingWindow) add(_ Limit, s State, _, units float64) State {
	s.Used += units
	return s
}

func (slidingWindow) give(_ Limit, s State, _ float64, c Charge) State {
	return giveWindow(s, c)
}

// giveWindow gives only into the charge's own window, or the one before. What was
// charged may have been spent of a lease that isn't settled yet: then less is used
// than is lent.
func giveWindow(s State, c Charge) State {
	switch granted := float64(c.Granted); c.At {
	case s.At:
		s.Used = max(0, s.Used-granted)
	case s.At - 1:
		s.Prev = max(0, s.Prev-granted)
	}
	return s
}

func (slidingWindow) passes(l Limit, s State, _, units float64) float64 {
	period, rate := float64(l.Period), float64(l.Rate)
	// Once enough of the previous window is past. Where it holds nothing, only the
	// rounding of numbers beyond 2^53 denies what would just fit, in this window.
	if s.Prev > 0 && s.Used+units <= rate {
		return float64((s.At+1)*period) - math.Floor(float64(period*(rate-s.Used-units))/s.Prev)
	}
	// in the next window, once enough of this one is past
	return float64((s.At+2)*period) - min(math.Floor(float64(period*(rate-units))/s.Used), period)
}

func (slidingWindow) clear(l Limit, s State, now float64) float64 {
	switch period := float64(l.Period); {
	case s.Used > 0:
		return float64((s.At + 2) * period)
	case s.Prev > 0:
		return float64((s.At + 1) * period)
	default:
		return now
	}
}

func (slidingWindow) ends(l Limit, s State, _ float64) float64 {
	return float64((s.At + 2) * float64(l.Period))
}
