package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Refused returns the most units that were free while a call for one was refused,
// 0 if each refusal was right: of a limit of which nothing was used at start, none
// was given back and none lent. Spans count from start, a time by the shards'
// clocks.
//
// Each call was decided somewhere in its span, so a refusal is right if there may
// have been as much used at some moment in its own: of admissions that may have
// come by then, all had, and each as late as it can.
func Refused(l shardlimit.Limit, start time.Time, admitted, refused []Span) int64 {
	c := newCharges(admitted)
	free := c.freeOfLog
	switch {
	case isBucket(l):
		free = c.freeOfBucket()
	case l.Algorithm != shardlimit.SlidingLog:
		free = func(l shardlimit.Limit, at Span) float64 { return c.freeOfWindow(l, start, at) }
	}
	var most float64
	for _, at := range slices.SortedFunc(slices.Values(refused), func(a, b Span) int { return cmp.Compare(a.Sent, b.Sent) }) {
		at.Sent, at.Replied = at.Sent-grain, at.Replied+grain
		most = max(most, free(l, at))
	}
	return int64(most + rounding)
}

// charges are admissions, by either end of their spans.
type charges struct{ sent, replied []time.Duration }

func newCharges(admitted []Span) *charges {
	c := &charges{}
	for _, at := range admitted {
		c.sent = append(c.sent, at.Sent)
		c.replied = append(c.replied, at.Replied)
	}
	slices.Sort(c.sent)
	slices.Sort(c.replied)
	return c
}

// within returns how many may have been charged from one time to another, both
// included.
func (c *charges) within(from, to time.Duration) float64 {
	begun, _ := slices.BinarySearch(c.sent, to+1)
	over, _ := slices.BinarySearch(c.replied, from)
	return float64(begun - over)
}

// freeOfLog returns what was free of a sliding log.
func (c *charges) freeOfLog(l shardlimit.Limit, at Span) float64 {
	return float64(l.Rate) - c.within(at.Sent-l.Period, at.Replied)
}

// freeOfWindow returns what was free of a window, of that in which at the refusal
// the least was.
func (c *charges) freeOfWindow(l shardlimit.Limit, start time.Time, at Span) float64 {
	index := func(t time.Duration) int64 { return (start.UnixNano() + int64(t)) / int64(l.Period) }
	least := float64(l.Rate)
	for i := index(at.Sent); i <= index(at.Replied); i++ {
		began := time.Duration(i*int64(l.Period) - start.UnixNano())
		used := c.within(began, min(at.Replied, began+l.Period))
		if l.Algorithm == shardlimit.SlidingWindow {
			elapsed := max(at.Sent-began, 0)
			used += c.within(began-l.Period, began) * (1 - float64(elapsed)/float64(l.Period))
		}
		least = min(least, float64(l.Rate)-used)
	}
	return least
}

// freeOfBucket returns what tells how much was free of a bucket, asked in the order
// of the refusals.
func (c *charges) freeOfBucket() func(shardlimit.Limit, Span) float64 {
	var level float64 // of what was charged for sure, at the time of the latest
	var since time.Duration
	done := 0
	fall := func(l shardlimit.Limit, to time.Duration) {
		level = max(0, level-float64(to-since)/emission(l))
		since = to
	}
	return func(l shardlimit.Limit, at Span) float64 {
		for ; done < len(c.replied) && c.replied[done] <= at.Sent; done++ {
			fall(l, c.replied[done])
			level++
		}
		fall(l, max(at.Sent, since))
		return float64(capacity(l)) - level - c.within(at.Sent+1, at.Replied)
	}
}
