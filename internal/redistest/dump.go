package redistest

import (
	"testing"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// Dump returns all that a cluster holds below a prefix: each key with its value, as
// the server would dump it, and the millisecond at which it ends. What was charged,
// reset or given back in between shows as a difference of two.
func Dump(t testing.TB, c *rediscluster.Cluster, prefix string) map[string]Dumped {
	t.Helper()
	primaries, err := c.Primaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Dumped{}
	for _, n := range primaries {
		keys := n.Client().Scan(t.Context(), 0, prefix+":*", 1000).Iterator()
		for keys.Next(t.Context()) {
			value, err := n.Client().Dump(t.Context(), keys.Val()).Result()
			if err != nil {
				t.Fatal(err)
			}
			ends, err := n.Client().PExpireTime(t.Context(), keys.Val()).Result()
			if err != nil {
				t.Fatal(err)
			}
			all[keys.Val()] = Dumped{Value: value, Ends: ends.Milliseconds()}
		}
		if err := keys.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Dumped is what a key holds, and when it ends.
type Dumped struct {
	Value string
	Ends  int64
}
