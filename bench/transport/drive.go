package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// patience is the timeout of a decision: late ones are not left out.
const patience = 10 * time.Second

// result is what a way did in one round.
type result struct {
	decisions int64
	took      time.Duration
	server    time.Duration // CPU of all primaries
	mallocs   uint64
	latencies []time.Duration // sorted; of a single goroutine alone
}

func (r result) rate() float64 { return float64(r.decisions) / r.took.Seconds() }

// cpu returns the servers' CPU for a decision, in µs.
func (r result) cpu() float64 { return micros(r.server) / float64(r.decisions) }

func (r result) allocations() float64 { return float64(r.mallocs) / float64(r.decisions) }

// p50 returns how long half of the decisions took at most, in µs.
func (r result) p50() float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	return micros(r.latencies[len(r.latencies)/2])
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// drive takes units of random keys, from so many goroutines, for as long as
// span.
func drive(ctx context.Context, servers *rediscluster.Cluster, w way, goroutines int, span time.Duration, keys int) (result, error) {
	before, err := servers.CPU(ctx)
	if err != nil {
		return result{}, err
	}
	latencies := make([]time.Duration, 0, 1<<20)
	runtime.GC()
	mallocs := mallocs()
	began := time.Now()
	end := began.Add(span)

	ctx = context.WithoutCancel(ctx) // as of a caller that nobody cancels
	var decisions atomic.Int64
	var failure atomic.Pointer[error]
	var working sync.WaitGroup
	for range goroutines {
		working.Go(func() {
			own := int64(0)
			for now := time.Now(); now.Before(end); own++ {
				if err := w.take(ctx, rand.IntN(keys)); err != nil {
					failure.Store(new(err)) // a copy: the loop itself must not allocate
					return
				}
				last := now
				now = time.Now()
				if goroutines == 1 && len(latencies) < cap(latencies) {
					latencies = append(latencies, now.Sub(last))
				}
			}
			decisions.Add(own)
		})
	}
	working.Wait()
	r := result{decisions: decisions.Load(), took: time.Since(began), mallocs: sinceMallocs(mallocs), latencies: latencies}
	if err := failure.Load(); err != nil {
		return result{}, *err
	}
	slices.Sort(r.latencies)
	after, err := servers.CPU(ctx)
	r.server = after - before
	return r, err
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func sinceMallocs(before uint64) uint64 { return mallocs() - before }

// median returns the median of what of says about each result.
func median(results []result, of func(result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = of(r)
	}
	return middle(values)
}

// ratio returns the median of the rounds' ratios.
func ratio(results, base []result, of func(result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = of(r) / of(base[i])
	}
	return middle(values)
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
