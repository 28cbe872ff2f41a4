package ledger

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"
)

// overBucket returns the most units that lie in any one span beyond what a
// bucket may admit there, burst + (span + grain) / emission. An admission counts
// only if it lies wholly inside.
//
// It's a matter of scheduling. Let each admission be a job for one machine: it
// takes one emission interval, may begin once the call was sent, and must be
// done when its answer came and the burst has gone by besides. The jobs of one
// span that don't fit into it are late by their surplus, and no order of work
// makes the worst less late than to do always the most urgent first (Jackson's
// rule, with preemption). So the greatest lateness is the greatest surplus,
// found in O(n log n) and not in a look at each pair of ends.
func overBucket(admitted []Span, burst int64, emission float64) int64 {
	coming := slices.Clone(admitted)
	slices.SortFunc(coming, func(a, b Span) int { return cmp.Compare(a.Sent, b.Sent) })
	var waiting jobs
	var now, late float64
	for len(coming) > 0 || len(waiting) > 0 {
		if len(waiting) == 0 {
			now = max(now, float64(coming[0].Sent))
		}
		for len(coming) > 0 && float64(coming[0].Sent) <= now {
			due := float64(coming[0].Replied+grain) + float64(burst)*emission
			heap.Push(&waiting, job{due: due, left: emission})
			coming = coming[1:]
		}
		urgent := &waiting[0]
		if len(coming) > 0 && now+urgent.left > float64(coming[0].Sent) {
			next := float64(coming[0].Sent)
			urgent.left -= next - now
			now = next
			continue
		}
		now += urgent.left
		late = max(late, now-urgent.due)
		heap.Pop(&waiting)
	}
	return int64(math.Ceil(late/emission - rounding))
}

// job is one admission that waits to be worked off.
type job struct{ due, left float64 } // ns

// jobs is a heap, the most urgent job on top.
type jobs []job

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].due < j[b].due }
func (j jobs) Swap(a, b int)      { j[a], j[b] = j[b], j[a] }
func (j *jobs) Push(x any)        { *j = append(*j, x.(job)) }

func (j *jobs) Pop() any {
	last := (*j)[len(*j)-1]
	*j = (*j)[:len(*j)-1]
	return last
}

// overPeriod returns the most units above rate that lie wholly within any
// period, its end excluded.
func overPeriod(admitted []Span, rate int64, period time.Duration) int64 {
	sorted := slices.SortedFunc(slices.Values(admitted), func(a, b Span) int { return cmp.Compare(a.Sent, b.Sent) })
	var over int64
	for i, first := range sorted {
		inside := int64(0)
		for _, at := range sorted[i:] {
			if at.Sent >= first.Sent+period {
				break
			}
			if at.Replied < first.Sent+period-grain {
				inside++
			}
		}
		over = max(over, inside-rate)
	}
	return over
}
