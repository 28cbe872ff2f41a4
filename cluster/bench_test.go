package cluster

import (
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
			call := take(plan, redistest.Prefix(b))
			ctx := c.bound(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Do(ctx, call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
