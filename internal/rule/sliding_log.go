package rule

// slidingLog counts the entries of the last period, one a unit. Only the store
// can see the entries: State is what it counted, and when one must leave.
type slidingLog struct{}

func (slidingLog) unit(Limit) float64 { return 1 }

func (slidingLog) current(l Limit, s State, now float64) (State, bool) {
	late := s.At > now+second
	if late {
		s.At, s.Leave = now+second, min(s.Leave, now+second)
	}
	switch period := float64(l.Period); {
	case s.At <= now-period:
		return State{}, false
	case s.Leave > 0 && s.Leave <= now-period:
		// The entry that had to leave has left, and with it all older ones:
		// what stays is not known here, but what was asked for now passes.
		s.Used = 0
	}
	return s, late
}

func (slidingLog) used(_ Limit, s State, _ float64) float64 { return s.Used }

func (slidingLog) add(_ Limit, s State, _, units float64) State {
	s.Used += units
	return s
}

// give is the store's own: it removes the members of the charge.
func (slidingLog) give(_ Limit, s State, _ float64, _ Charge) State { return s }

func (slidingLog) passes(l Limit, s State, _, _ float64) float64 {
	return s.Leave + float64(l.Period)
}

func (slidingLog) clear(l Limit, s State, now float64) float64 {
	if s.Used == 0 {
		return now
	}
	return s.At + float64(l.Period)
}

func (slidingLog) ends(l Limit, s State, _ float64) float64 {
	return s.At + float64(l.Period)
}
