package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/scripts"
)

func BenchmarkDo(b *testing.B) {
	servers := redistest.Shared(b)
	for _, name := range []string{"token_bucket", "fixed_window", "several"} {
		plan := scripts.NewPlan(limits[name]...)
		b.Run(name, func(b *testing.B) {
			c := newTestClient(b, servers, func(o *redis.ClusterOptions) { *o = *Tune(o) })
			call := take(plan, tagged(b))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Do(context.Background(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDoTogether is of callers enough to fill batches.
func BenchmarkDoTogether(b *testing.B) {
	servers := redistest.Shared(b)
	for _, callers := range []int{8, 128, 512} { // for each processor
		b.Run(fmt.Sprintf("callers=%dxP", callers), func(b *testing.B) {
			c := newTestClient(b, servers, func(o *redis.ClusterOptions) { *o = *Tune(o) })
			prefix := redistest.Prefix(b)
			keys := make([]string, 10_000)
			for i := range keys {
				keys[i] = keyOf(prefix, i)
			}
			b.ReportAllocs()
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				call := take(many, "")
				for pb.Next() {
					call.Key = keys[rand.IntN(len(keys))]
					if _, err := c.Do(context.Background(), call); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
