package rule

import "math"

const (
	// Tick is the number of GCRA's ticks in a µs.
	Tick = 16
	// epoch is 2026-01-01 in µs since 1970: ticks are counted from it, so that
	// a TAT in a double keeps every tick until 2043.
	epoch = 1767225600e6
)

// gcra is the generic cell rate algorithm in its virtual scheduling form (ITU-T
// I.371): TAT is the theoretical arrival time, T the emission interval, and a
// cell conforms while TAT - now + T <= burst x T.
type gcra struct{}

// unit is the emission interval T in ticks, rounded up: never looser.
func (gcra) unit(l Limit) float64 {
	return math.Ceil(float64(Tick*float64(l.Period)) / float64(l.Rate))
}

// ticks is now on GCRA's own scale.
func ticks(now float64) float64 { return (now - epoch) * Tick }

// micros is the first whole µs at or after a tick.
func micros(tick float64) float64 { return epoch + math.Ceil(tick/Tick) }

func (g gcra) current(l Limit, s State, now float64) (State, bool) {
	if s.At == 0 { // nothing is stored; before 2026 that lies ahead
		s.At = min(ticks(now), 0)
	}
	farthest := ticks(now) + float64(float64(l.Burst)*g.unit(l)) + Tick*second
	if s.At > farthest {
		return State{At: farthest}, true
	}
	return s, false
}

func (gcra) used(_ Limit, s State, now float64) float64 {
	return max(s.At-ticks(now), 0)
}

func (g gcra) add(l Limit, s State, now, units float64) State {
	s.At = max(s.At, ticks(now)) + float64(units*g.unit(l))
	return s
}

func (g gcra) give(l Limit, s State, now float64, c Charge) State {
	decayed := max(ticks(now)-ticks(float64(c.Now)), 0)
	s.At -= max(float64(float64(c.Granted)*g.unit(l))-decayed, 0)
	s.At = max(s.At, ticks(now))
	return s
}

func (g gcra) passes(l Limit, s State, _, units float64) float64 {
	unit := g.unit(l)
	return micros(s.At + float64(units*unit) - float64(float64(l.Burst)*unit))
}

func (gcra) clear(_ Limit, s State, now float64) float64 {
	return max(micros(s.At), now)
}

func (g gcra) ends(l Limit, s State, now float64) float64 {
	return g.clear(l, s, now)
}
