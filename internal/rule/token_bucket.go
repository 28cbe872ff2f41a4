package rule

import "math"

// tokenBucket keeps what is used in units x period, so that it falls by the
// rate each µs and stays whole: a long run loses no fraction, and a changed
// rate or burst meets the same number.
type tokenBucket struct{}

func (tokenBucket) unit(l Limit) float64 { return float64(l.Period) }

func (tokenBucket) current(l Limit, s State, now float64) (State, bool) {
	late := s.At > now+second
	if late {
		s.At = now + second
	}
	if now > s.At {
		s.Used = max(0, s.Used-float64((now-s.At)*float64(l.Rate)))
		s.At = now
	}
	return s, late
}

func (tokenBucket) used(_ Limit, s State, _ float64) float64 { return s.Used }

func (tokenBucket) add(l Limit, s State, _, units float64) State {
	s.Used += float64(units * float64(l.Period))
	return s
}

func (tokenBucket) give(l Limit, s State, _ float64, c Charge) State {
	decayed := float64(max(s.At-c.At, 0) * float64(l.Rate))
	back := max(float64(float64(c.Granted)*float64(l.Period))-decayed, 0)
	s.Used = max(0, s.Used-back)
	return s
}

func (tokenBucket) passes(l Limit, s State, _, units float64) float64 {
	over := s.Used + float64(units*float64(l.Period)) - float64(float64(l.Burst)*float64(l.Period))
	return s.At + math.Ceil(over/float64(l.Rate))
}

func (tokenBucket) clear(l Limit, s State, now float64) float64 {
	if s.Used == 0 {
		return now
	}
	return s.At + math.Ceil(s.Used/float64(l.Rate))
}

func (tokenBucket) ends(l Limit, s State, _ float64) float64 {
	return s.At + math.Ceil(s.Used/float64(l.Rate))
}
