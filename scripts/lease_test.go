package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
			if err := playInRedis(t, connect(t), rand.New(rand.NewPCG(seed, 0)), a, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTheModelCatchesBrokenScripts changes the scripts' texts, one rule at a time,
// and sees that some history then no longer covers what may be spent.
func TestTheModelCatchesBrokenScripts(t *testing.T) {
	const floor = "math.max((lent + before) * period, "
	for _, tt := range []struct {
		name      string
		algorithm rule.Algorithm
		changes   []string // old, new
	}{
		{"what is lent holds up what is used once a call", rule.TokenBucket, []string{
			"    current, since = " + floor + "current - (ends - since) * rate), ends\n", "",
			"    used, at = " + floor + "used - (ends - at) * rate), ends\n", "",
			"      u, a = " + floor + "u - (turn - a) * rate), turn\n", "",
		}},
		{"what is lent holds nothing up", rule.TokenBucket, []string{
			floor, "math.max(0, ", "floor = (lent + before) * period", "floor = 0",
		}},
		{"a reset that forgets what is lent", rule.TokenBucket, []string{"u = floor\n", "u = 0\n"}},
		{"a reset that forgets what is lent", rule.SlidingWindow, []string{"p, u = before, lent", "p, u = 0, 0"}},
		{"a reset that forgets what is lent", rule.FixedWindow, []string{"p, u = before, lent", "p, u = 0, 0"}},
		{"a settlement of the window before given to this one", rule.SlidingWindow, []string{"prev = math.max(before, prev - back)", "used = math.max(0, used - back)"}},
	} {
		t.Run(tt.name+"/"+tt.algorithm.String(), func(t *testing.T) {
			t.Parallel()
			rdb, seed, broken := connect(t), rand.Uint64(), map[string]string{}
			for _, s := range scripts.All() {
				if text := strings.NewReplacer(tt.changes...).Replace(s.Text); text != s.Text {
					broken[s.SHA] = load(t, rdb, text)
				}
			}
			if len(broken) == 0 {
				t.Fatal("no script has the text that was to be changed")
			}
			if err := playInRedis(t, rdb, rand.New(rand.NewPCG(seed, 0)), tt.algorithm, broken); err == nil {
				t.Errorf("seed %d: no history admits too much", seed)
			}
		})
	}
}

// playInRedis plays histories until one fails. Of the scripts whose SHA is in
// broken, those run that it gives.
func playInRedis(t *testing.T, rdb *redis.ClusterClient, rng *rand.Rand, a rule.Algorithm, broken map[string]string) error {
	t.Helper()
	histories := make([]*leasetest.History, 500)
	for i := range histories {
		histories[i] = leasetest.New(rng, a, fmt.Sprintf("%s:{%d}", redistest.Prefix(t), i), leasetest.Break{})
	}
	for range 60 {
		if err := playOnInRedis(t, rdb, histories, broken); err != nil {
			return err
		}
	}
	return nil
}

// playOnInRedis makes the next call of each history, all in one pipeline.
func playOnInRedis(t *testing.T, rdb *redis.ClusterClient, histories []*leasetest.History, broken map[string]string) error {
	t.Helper()
	pipe := rdb.Pipeline()
	calls, replies := make([]*scripts.Call, len(histories)), make([]*redis.Cmd, len(histories))
	for i, h := range histories {
		c, err := h.Next()
		if err != nil {
			return fmt.Errorf("history %d: %w", i, err)
		}
		c.Clock = testclock.At(h.Now())
		calls[i], replies[i] = c, send(t, pipe, c)
		if sha, ok := broken[c.Script().SHA]; ok {
			replies[i].Args()[1] = sha
		}
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
			return fmt.Errorf("history %d: %w", i, err)
		}
	}
	return nil
}

// What is used would have decayed in 4 µs; what is lent has ended for sure when
// the next epoch ends.
func TestALeasedKeyOutlivesItsLeases(t *testing.T) {
	rdb := connect(t)
	c := &scripts.Call{
		Plan: scripts.NewPlan(rule.Limit{Algorithm: rule.TokenBucket, Rate: 1e6, Period: second, Burst: 1e6}),
		Op:   scripts.Lease, Key: redistest.Prefix(t), Lease: scripts.Ask{Want: 4},
	}
	text, err := send(t, rdb, c).Text()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Decode(text)
	if err != nil || reply.Granted != 4 {
		t.Fatalf("reply = %+v, %v; want 4 lent", reply, err)
	}
	const epoch = 200_000
	ends := (reply.Now/epoch+2)*epoch + 4 // µs
	got := rdb.PExpireTime(t.Context(), c.Key).Val().Milliseconds()
	if got < ends/1000 || got > ends/1000+2 {
		t.Errorf("the key ends at %d ms, want %d", got, ends/1000)
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
