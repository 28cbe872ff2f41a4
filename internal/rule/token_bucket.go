package rule

import "math"

// tokenBucket keeps what is used in units x period, so that it falls by the
// rate each µs and stays whole: a long run loses no fraction, and a changed
// rate or burst meets the same number.
//
// What is lent holds it up: a unit that somebody may still spend has not
// decayed. So level and lent together are never more than the burst.
type tokenBucket struct{}

func (tokenBucket) unit(l Limit) float64 { return float64(l.Period) }

func (b tokenBucket) current(l Limit, s State, now float64) (State, bool) {
	late := s.At > now+second
	if late {
		s.At = now + second
	}
	for s.lends() && now >= epochEnd(s.At) {
		s = b.turn(l, s)
	}
	return b.fall(l, s, now), late
}

// turn brings s to the end of its epoch, at which the leases of the epoch
// before have all ended.
func (b tokenBucket) turn(l Limit, s State) State {
	s = b.fall(l, s, epochEnd(s.At))
	s.Lent, s.Before = 0, s.Lent
	return s
}

// fall lets what is used fall until now, in the epoch of s, but not below what
// is lent.
func (b tokenBucket) fall(l Limit, s State, now float64) State {
	if now > s.At {
		s.Used = max(b.lent(l, s), s.Used-float64((now-s.At)*float64(l.Rate)))
		s.At = now
	}
	return s
}

// lent is all that is lent, in the scale of Used.
func (tokenBucket) lent(l Limit, s State) float64 {
	return float64((s.Lent + s.Before) * float64(l.Period))
}

func (tokenBucket) used(_ Limit, s State, _ float64) float64 { return s.Used }

func (tokenBucket) add(l Limit, s State, _, units float64) State {
	s.Used += float64(units * float64(l.Period))
	return s
}

func (b tokenBucket) give(l Limit, s State, _ float64, c Charge) State {
	decayed := float64(max(s.At-c.At, 0) * float64(l.Rate))
	back := max(float64(float64(c.Granted)*float64(l.Period))-decayed, 0)
	s.Used = max(b.lent(l, s), s.Used-back)
	return s
}

func (b tokenBucket) passes(l Limit, s State, _, units float64) float64 {
	return b.reaches(l, s, float64(float64(l.Burst)*float64(l.Period))-float64(units*float64(l.Period)))
}

// reaches is the µs at which no more than used is used.
func (b tokenBucket) reaches(l Limit, s State, used float64) float64 {
	for s.lends() {
		next := b.turn(l, s)
		if next.Used <= used {
			break
		}
		s = next
	}
	return s.At + math.Ceil((s.Used-used)/float64(l.Rate))
}

func (b tokenBucket) clear(l Limit, s State, now float64) float64 {
	if s.Used == 0 {
		return now
	}
	return b.reaches(l, s, 0)
}

// ends covers both epochs of what is lent, and the time in which that decays
// after them.
func (tokenBucket) ends(l Limit, s State, _ float64) float64 {
	ends := s.At
	if s.lends() {
		ends = epochEnd(s.At) + span
	}
	return ends + math.Ceil(s.Used/float64(l.Rate))
}
