package drill_test

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shardlimit/shardlimit/internal/drill"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

var (
	span = flag.Duration("drill.for", 15*time.Second, "how long random faults go on")
	seed = flag.Uint64("drill.seed", 0, "of the random faults; 0: another each time")
)

// Whatever breaks, in whatever order, at whatever time: nothing is charged
// twice, what is over was at risk, all shards come back and nothing is left
// running.
func TestRandomFaults(t *testing.T) {
	c := redistest.Start(t, drill.Servers(""))
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	for name, o := range map[string]drill.Options{
		"each decided by Redis": {Rate: 400, Subjects: 48},
		"leased":                {Rate: 2400, Subjects: 20, Leases: true},
	} {
		t.Run(name, func(t *testing.T) { endure(t, c, o) })
	}
}

// endure has random faults go on for half of the time.
func endure(t *testing.T, c *rediscluster.Cluster, o drill.Options) {
	t.Helper()
	o.Limiters, o.Timeout, o.Calm = 3, 50*time.Millisecond, 200*time.Millisecond
	t.Logf("go test ./internal/drill -run TestRandomFaults -drill.for=%v -drill.seed=%d", *span, *seed)
	left := goleak.IgnoreCurrent()
	chaos := drill.Chaos(*seed, *span/2, func(at time.Duration, what string) { t.Logf("%7.3f s: %s", at.Seconds(), what) })
	r, err := drill.Run(t.Context(), c, chaos, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r.Account)
	if len(r.Broken) > 0 {
		t.Error(strings.Join(r.Broken, "; "))
	}
	// The servers' own, of nodes that were started again.
	goleak.VerifyNone(t, left, goleak.IgnoreAnyFunction("github.com/shardlimit/shardlimit/internal/rediscluster.(*run).wait"))
}
