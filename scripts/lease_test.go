package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/leasetest"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// TestLeasesOfRedisNeverExceedTheLimit plays histories of leases in Redis, against
// a model that knows every unit.
func TestLeasesOfRedisNeverExceedTheLimit(t *testing.T) {
	for _, a := range []rule.Algorithm{rule.TokenBucket, rule.SlidingWindow, rule.FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			rdb := connect(t)
			histories := make([]*leasetest.History, 500)
			for i := range histories {
				histories[i] = leasetest.New(rng, a, fmt.Sprintf("%s:{%d}", redistest.Prefix(t), i), leasetest.Break{})
			}
			for range 60 {
				playInRedis(t, rdb, histories)
			}
		})
	}
}

// playInRedis makes the next call of each history, all in one pipeline.
func playInRedis(t *testing.T, rdb *redis.ClusterClient, histories []*leasetest.History) {
	t.Helper()
	pipe := rdb.Pipeline()
	calls, replies := make([]*scripts.Call, len(histories)), make([]*redis.Cmd, len(histories))
	for i, h := range histories {
		c, err := h.Next()
		if err != nil {
			t.Fatalf("history %d: %v", i, err)
		}
		c.Clock = testclock.At(h.Now())
		calls[i], replies[i] = c, send(t, pipe, c)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, h := range histories {
		reply, err := calls[i].Decode(replies[i].Val().(string))
		if err == nil {
			err = h.Record(reply)
		}
		if err != nil {
			t.Fatalf("history %d: %v", i, err)
		}
	}
}

// TestALeasedKeyBecomesSmallAgain follows the bytes that a key takes: no more than
// ever before it is leased, and the same again once that is over.
func TestALeasedKeyBecomesSmallAgain(t *testing.T) {
	rdb, model := connect(t), memory.New()
	for _, tt := range []struct {
		algorithm              rule.Algorithm
		cold, leased, settling int64
	}{
		{rule.TokenBucket, 12, 48, 48},
		{rule.SlidingWindow, 12, 56, 56},
		{rule.FixedWindow, 1, 41, 41},
	} {
		t.Run(tt.algorithm.String(), func(t *testing.T) {
			key, now := redistest.Prefix(t)+":{x}", int64(t0)
			plan := scripts.NewPlan(rule.Limit{Algorithm: tt.algorithm, Rate: 1000, Period: 10 * second, Burst: 1000})
			do := func(c scripts.Call, size int64) scripts.Reply {
				t.Helper()
				c.Plan, c.Key, c.Cost, c.Count, c.Clock = plan, key, 1, 1, testclock.At(now)
				got, _ := both(t, rdb, model, &c)
				name := key
				if plan.Windowed() {
					name = fmt.Sprintf("%s:%d", key, c.Window)
				}
				if n := rdb.StrLen(t.Context(), name).Val(); n != size {
					t.Errorf("after op %d at %d: %d bytes, want %d", c.Op, now-t0, n, size)
				}
				return got
			}
			do(scripts.Call{Op: scripts.Take}, tt.cold)
			lent := do(scripts.Call{Op: scripts.Lease, Lease: scripts.Ask{Want: 10, Offered: 10}}, tt.leased)
			if lent.Granted != 10 {
				t.Fatalf("%d lent of 10", lent.Granted)
			}
			now += 100_000
			settle := []scripts.Settlement{{At: lent.Now, Size: 10, Unspent: 3}}
			do(scripts.Call{Op: scripts.Lease, Lease: scripts.Ask{Settle: settle}}, tt.settling)
			now += 400_000
			do(scripts.Call{Op: scripts.Take}, tt.cold)
		})
	}
}
