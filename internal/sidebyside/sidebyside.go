// Package sidebyside measures two things in short turns, one after the other, so that
// both meet the same machine: on one that is busy their ratio means something,
// and neither figure by itself does.
package sidebyside

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// perTurn is how many calls a turn takes.
const perTurn = 8000

// Compare measures ours, called from so many goroutines with the numbers from 0
// on, beside theirs, and reports the median of the turns' ratios as x-rate.
func Compare(b *testing.B, goroutines int, ours, theirs func(int)) {
	b.ReportAllocs()
	b.StopTimer()
	var ratios []float64
	for done := 0; done < b.N; done += perTurn {
		n := min(perTurn, b.N-done)
		with := timed(done, n, goroutines, theirs)
		b.StartTimer()
		took := timed(done, n, goroutines, ours)
		b.StopTimer()
		ratios = append(ratios, float64(took)/float64(with))
	}
	b.ReportMetric(Median(ratios), "x-rate")
}

// timed calls f with n numbers from first on, and returns how long that took.
func timed(first, n, goroutines int, f func(int)) time.Duration {
	began := time.Now()
	if goroutines == 1 {
		for i := range n {
			f(first + i)
		}
		return time.Since(began)
	}
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range n / goroutines {
				f(first + i*goroutines + g)
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// Median returns the median of values, of which there is at least one. It sorts
// them.
func Median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
