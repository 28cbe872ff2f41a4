package page

import (
	"sync/atomic"
	"time"
)

// outcomes is how many there were of each outcome. Of what has none, such as
// calls to a shard, all are allowed.
type outcomes struct{ allowed, denied, shadowed int64 }

func (o outcomes) plus(p outcomes) outcomes {
	return outcomes{o.allowed + p.allowed, o.denied + p.denied, o.shadowed + p.shadowed}
}

func (o outcomes) minus(p outcomes) outcomes {
	return outcomes{o.allowed - p.allowed, o.denied - p.denied, o.shadowed - p.shadowed}
}

// counter counts outcomes. It is safe for concurrent use.
type counter struct{ allowed, denied, shadowed atomic.Int64 }

func (c *counter) read() outcomes {
	return outcomes{c.allowed.Load(), c.denied.Load(), c.shadowed.Load()}
}

const (
	window = 120 // ticks that a series remembers, and a chart shows
	recent = 10  // of them, those that say how much there is now
)

// series remembers how much was counted between ticks, and how long that took.
// The zero series remembers nothing.
type series struct {
	counted outcomes // up to the latest tick
	ticks   int
	each    [window]sample // by the number of the tick, modulo window
}

type sample struct {
	outcomes
	took time.Duration
}

// tick notes that the counter has come to this, the latest tick being so long
// ago.
func (s *series) tick(counted outcomes, took time.Duration) {
	s.each[s.ticks%window] = sample{counted.minus(s.counted), took}
	s.counted = counted
	s.ticks++
}

// samples returns the latest n, oldest first; those from before the first tick
// are zero.
func (s *series) samples(n int) []sample {
	list := make([]sample, n)
	for i := range min(n, s.ticks) {
		list[n-1-i] = s.each[(s.ticks-1-i)%window]
	}
	return list
}

// rates are outcomes a second.
type rates struct{ allowed, denied, shadowed float64 }

func (r rates) all() float64 { return r.allowed + r.denied + r.shadowed }

func (r rates) plus(q rates) rates {
	return rates{r.allowed + q.allowed, r.denied + q.denied, r.shadowed + q.shadowed}
}

func (s sample) rates() rates {
	if s.took <= 0 {
		return rates{}
	}
	seconds := s.took.Seconds()
	return rates{float64(s.allowed) / seconds, float64(s.denied) / seconds, float64(s.shadowed) / seconds}
}

// now returns how much there is of late.
func (s *series) now() rates {
	var sum sample
	for _, one := range s.samples(recent) {
		sum.outcomes = sum.plus(one.outcomes)
		sum.took += one.took
	}
	return sum.rates()
}
