package shardlimit_test

import (
	"testing"

	"golang.org/x/time/rate"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/memory"
)

// BenchmarkAllowHere measures decisions that are made in the process, beside those of
// rate.Limiter: bench/hotkey compares them in one run.
func BenchmarkAllowHere(b *testing.B) {
	store := memory.New()
	l, err := shardlimit.NewFlying(shardlimit.Backend{Run: store.Do, Stop: store.Close}, shardlimit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	for name, limit := range map[string]shardlimit.Limit{
		"lease": shardlimit.PerSecond(plenty), "denial": shardlimit.Per(1, long),
	} {
		p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: name, Limits: []shardlimit.Limit{limit}})
		allow := func() {
			if _, err := l.Allow(b.Context(), p, "user:42"); err != nil {
				b.Error(err)
			}
		}
		for range 1000 {
			allow()
		}
		b.Run(name+"/serial", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				allow()
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					allow()
				}
			})
		})
	}
	free := rate.NewLimiter(plenty, plenty)
	b.Run("rate.Limiter/serial", func(b *testing.B) {
		for b.Loop() {
			free.Allow()
		}
	})
	b.Run("rate.Limiter/parallel", func(b *testing.B) {
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				free.Allow()
			}
		})
	})
}
