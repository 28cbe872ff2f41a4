package shardlimit_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"golang.org/x/time/rate"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/sidebyside"
	"github.com/shardlimit/shardlimit/memory"
)

// BenchmarkAllowHere measures decisions made in the process, from the subject's
// name to the result, beside rate.Limiter.Allow of the same kind in the same run:
// x-rate is the ratio. Leases are asked for and denials end as ever, of a store
// that answers at once: of 10,000 subjects some are too cold for a lease, and
// here-% says how many decisions were made in the process. BenchmarkDecide in
// hotkey has the same of those alone.
func BenchmarkAllowHere(b *testing.B) {
	for _, c := range []struct {
		name     string
		limit    shardlimit.Limit
		subjects uint64
	}{
		{"lease/hot", shardlimit.PerSecond(plenty), 1},
		{"lease/zipf", shardlimit.PerSecond(plenty), 10_000},
		{"denied/hot", shardlimit.Per(1, long), 1},
		{"denied/zipf", shardlimit.Per(1, long), 10_000},
	} {
		store := memory.New()
		l, err := shardlimit.NewFlying(shardlimit.Backend{Run: store.Do, Stop: stops(store.Close)}, shardlimit.Config{})
		if err != nil {
			b.Fatal(err)
		}
		p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{c.limit}})
		subjects := zipfSubjects(c.subjects)
		limiters := map[string]*rate.Limiter{}
		theirs := make([]*rate.Limiter, len(subjects))
		for i, s := range subjects {
			if limiters[s] == nil {
				limiters[s] = rate.NewLimiter(plenty, plenty)
			}
			theirs[i] = limiters[s]
		}
		allow := func(i int) {
			if _, err := l.Allow(b.Context(), p, subjects[i%len(subjects)]); err != nil {
				b.Error(err)
			}
		}
		for i := range 20 * len(subjects) {
			allow(i)
		}
		for _, goroutines := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/%d goroutines", c.name, goroutines), func(b *testing.B) {
				before := l.Inspect().HotKeys.Counts.Missed
				defer func() {
					missed := l.Inspect().HotKeys.Counts.Missed - before
					b.ReportMetric(100*(1-float64(missed)/float64(b.N)), "here-%")
				}()
				sidebyside.Compare(b, goroutines, allow, func(i int) { theirs[i%len(theirs)].Allow() })
			})
		}
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	}
}

// zipfSubjects returns 65,536 subjects, n of them distinct, as often as Zipf says:
// each a string of its own, as of a caller who has just read it.
func zipfSubjects(n uint64) []string {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, n-1)
	subjects := make([]string, 1<<16)
	for i := range subjects {
		subjects[i] = "user:" + strconv.FormatUint(zipf.Uint64(), 10)
	}
	return subjects
}
