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
			rdb := connect(t)
			if err := playInRedis(t, rdb, rand.New(rand.NewPCG(seed, 0)), a, onStepClock(t, rdb), leasetest.Break{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTheModelCatchesBrokenScripts changes the scripts' texts, or what processes
// do, one rule at a time, and sees that some history then no longer covers what
// may be spent.
func TestTheModelCatchesBrokenScripts(t *testing.T) {
	const floor = "math.max((lent + before) * period, "
	all := []rule.Algorithm{rule.TokenBucket, rule.SlidingWindow, rule.FixedWindow}
	bucket := all[:1]
	for _, tt := range []struct {
		name       string
		algorithms []rule.Algorithm
		broke      leasetest.Break
		changes    []string // old, new
	}{
		{"a settlement sent twice", all, leasetest.Break{Twice: true}, nil},
		{"leases spent for two lease times", all, leasetest.Break{Longer: true}, nil},
		{"what is lent holds up what is used once a call", bucket, leasetest.Break{}, []string{
			"    current, since = " + floor + "current - (ends - since) * rate), ends\n", "",
			"    used, at = " + floor + "used - (ends - at) * rate), ends\n", "",
			"      u, a = " + floor + "u - (turn - a) * rate), turn\n", "",
		}},
		{"units handed back, and what is lent holds nothing up", bucket, leasetest.Break{}, []string{
			floor, "math.max(0, ", "floor = (lent + before) * period", "floor = 0",
		}},
		{"a key that ends when nothing would be used", bucket, leasetest.Break{}, []string{
			"ends = math.max((math.floor(at / 200000) + 2) * 200000 + math.ceil(used / rate), asked + 400000)",
			"ends = at + math.ceil(used / rate)",
			"if floor > 0 then unused = turn + 200000 end", "",
		}},
		{"a key that ends with the epoch it was lent in", bucket, leasetest.Break{}, []string{
			"ends = math.max((math.floor(at / 200000) + 2) * 200000 + math.ceil(used / rate), asked + 400000)",
			"ends = math.max(math.floor(at / 200000 + 1) * 200000, at + math.ceil(used / rate))",
		}},
		{"a reset that deletes", all, leasetest.Break{}, []string{
			"if all and lone == 'g' then", "if all then",
		}},
		{"a reset that forgets what is lent", all, leasetest.Break{}, []string{
			"u = floor\n", "u = 0\n", "p, u = math.min(p, before), math.min(u, lent)", "p, u = 0, 0",
		}},
		{"a settlement of the window before given to this one", []rule.Algorithm{rule.SlidingWindow}, leasetest.Break{}, []string{
			"prev = math.max(0, prev - back)", "used = math.max(0, used - back)",
		}},
	} {
		for _, a := range tt.algorithms {
			t.Run(tt.name+"/"+a.String(), func(t *testing.T) {
				t.Parallel()
				rdb, seed := connect(t), rand.Uint64()
				if err := playInRedis(t, rdb, rand.New(rand.NewPCG(seed, 0)), a, onStepClock(t, rdb, tt.changes...), tt.broke); err == nil {
					t.Errorf("seed %d: no history admits too much", seed)
				}
			})
		}
	}
}

// onStepClock gives all nodes the scripts of keys that may be leased, changed
// from old to new texts, so that keys end by the clock that the call brings: at
// the very life that the script gives them, an hour less. It returns their SHAs
// by those of ours.
func onStepClock(t *testing.T, rdb *redis.ClusterClient, changes ...string) map[string]string {
	t.Helper()
	changed, stepping, change := 0, map[string]string{}, strings.NewReplacer(changes...)
	for _, s := range scripts.All() {
		head, body, ok := strings.Cut(s.Text, "\n")
		if !ok || !strings.Contains(body, "redis.call('GET', KEYS[1])") {
			continue // a log
		}
		text := change.Replace(body)
		if text != body {
			changed++
		}
		stepping[s.SHA] = load(t, rdb, head+"\n"+stepClock+text)
	}
	if changed == 0 && len(changes) > 0 {
		t.Fatal("no script has the text that was to be changed")
	}
	return stepping
}

// stepClock goes before a script. Redis itself never ends the key: it has an hour
// more, and the clock of a history is years ahead.
const stepClock = `
local server, clock = redis, ARGV[#ARGV] / 1000
local redis = {call = function(command, key, value, px, life)
  if command == 'GET' then
    local ends = server.call('GET', key .. ':ends')
    return (not ends or clock < ends + 0) and server.call('GET', key)
  end
  if px == 'PX' then
    server.call('SET', key .. ':ends', string.format('%.17g', clock + life - 3600000), px, life)
    return server.call('SET', key, value, px, life)
  end
  return server.call(command, key)
end}
`

// playInRedis plays histories until one fails, by those scripts that stepping gives
// by the SHAs of ours.
func playInRedis(t *testing.T, rdb *redis.ClusterClient, rng *rand.Rand, a rule.Algorithm, stepping map[string]string, broke leasetest.Break) error {
	t.Helper()
	histories := make([]*leasetest.History, 500)
	for i := range histories {
		histories[i] = leasetest.New(rng, a, fmt.Sprintf("%s:{%d}", redistest.Prefix(t), i), broke)
	}
	for range 60 {
		if err := playOnInRedis(t, rdb, histories, stepping); err != nil {
			return err
		}
	}
	return nil
}

// playOnInRedis makes the next call of each history, all in one pipeline.
func playOnInRedis(t *testing.T, rdb *redis.ClusterClient, histories []*leasetest.History, stepping map[string]string) error {
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
		replies[i].Args()[1] = stepping[c.Script().SHA]
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
