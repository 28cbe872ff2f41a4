package limitertest

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// RoundRobin checks what share of a steady load passes: 200,000 calls go round
// 1,000 keys of 100 per 60 s, 0.5 ms apart, for each algorithm. So each key is
// asked twice a second, from its own moment on.
//
// Keys don't depend on each other, so they are asked side by side, through
// several Limiters, and only every n-th key of them is, where that would take
// too long. Their clocks must be settable.
func RoundRobin(t *testing.T, newLimiter NewFunc, every int) {
	for _, tt := range []struct {
		algorithm shardlimit.Algorithm
		percent   float64
	}{
		{shardlimit.FixedWindow, 90},
		{shardlimit.SlidingLog, 90},
		{shardlimit.SlidingWindow, 82.9},
		{shardlimit.TokenBucket, 100},
		{shardlimit.GCRA, 100},
	} {
		t.Run(tt.algorithm.String(), func(t *testing.T) {
			passed, calls := roundRobin(t, newLimiter, tt.algorithm, every)
			if got := 100 * float64(passed) / float64(calls); math.Abs(got-tt.percent) > 0.05 {
				t.Errorf("%d of %d calls passed: %.2f %%, want %.1f %%", passed, calls, got, tt.percent)
			}
		})
	}
}

const (
	robinKeys  = 1_000
	robinCalls = 200 // of each key
	robinGap   = 500 * time.Microsecond
)

func roundRobin(t *testing.T, newLimiter NewFunc, a shardlimit.Algorithm, every int) (passed, calls int64) {
	const workers = 8
	var total atomic.Int64
	var all sync.WaitGroup
	for w := range workers {
		b := newBackend(t, newLimiter)
		p := b.policy(shardlimit.PerMinute(100).WithAlgorithm(a))
		all.Go(func() {
			for key := w * every; key < robinKeys; key += workers * every {
				total.Add(b.askSteadily(p, key))
			}
		})
	}
	all.Wait()
	return total.Load(), int64((robinKeys + every - 1) / every * robinCalls)
}

// askSteadily makes one key's calls and returns how many passed.
func (b *backend) askSteadily(p *shardlimit.Policy, key int) (passed int64) {
	subject := fmt.Sprint("user:", key)
	for i := range robinCalls {
		b.at(time.Duration(i*robinKeys+key) * robinGap)
		r, err := b.limiter.Allow(b.Context(), p, subject)
		if err != nil || r.Failure != nil {
			b.Errorf("Allow(%s) = %+v, %v", subject, r, err)
			return passed
		}
		passed += r.Granted
	}
	return passed
}
