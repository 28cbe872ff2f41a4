package scripts_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

const (
	second = 1_000_000 // µs
	hour   = 3600 * second
	year   = 366 * 24 * hour
	// t0 is 2030-01-01 in µs.
	t0 = 1893456000 * second
)

// at is one call of a history, at µs since 1970, and what it must grant.
type at struct {
	now         int64
	op          scripts.Op
	cost, count int64
	granted     int64
}

// TestLuaAgreesWithGoAtTheEdges makes the calls that random ones hardly meet,
// and says what each must grant.
func TestLuaAgreesWithGoAtTheEdges(t *testing.T) {
	bucket := rule.Limit{Algorithm: rule.TokenBucket, Rate: 5, Period: 10 * second, Burst: 5}
	gcra := rule.Limit{Algorithm: rule.GCRA, Rate: 5, Period: 10 * second, Burst: 5}
	sliding := rule.Limit{Algorithm: rule.SlidingWindow, Rate: 5, Period: 10 * second}
	fixed := rule.Limit{Algorithm: rule.FixedWindow, Rate: 5, Period: 10 * second}
	largest := rule.Limit{Algorithm: rule.SlidingLog, Rate: 10_000, Period: 60 * second}
	fastest := rule.Limit{Algorithm: rule.TokenBucket, Rate: 1e9, Period: 1000, Burst: 1e9}
	const take, charge, in2112, in2025 = scripts.Take, scripts.Charge, 1<<52 - 7, 1735689600 * second
	for _, tt := range []struct {
		name   string
		limits []rule.Limit
		calls  []at
	}{
		{"bucket, µs that need 53 bits", []rule.Limit{bucket}, []at{
			{in2112, take, 2, 1, 1},
			{in2112 + 6, take, 2, 1, 1},
			{in2112 + 7, take, 1, 1, 1},
			{in2112 + 8, take, 1, 1, 0},
			{in2112 + 7 + 2*second, take, 1, 1, 1},
		}},
		{"gcra, never seen, before 2026", []rule.Limit{gcra}, []at{
			{in2025, take, 1, 1, 1}, {in2025, take, 1, 9, 4}, {in2025, take, 1, 1, 0}, {in2025 + 2*second, take, 1, 1, 1},
		}},
		{"several with gcra, never seen, before 2026", []rule.Limit{bucket, gcra}, []at{
			{in2025, take, 1, 1, 1}, {in2025, take, 1, 9, 4}, {in2025, take, 1, 1, 0}, {in2025 + 2*second, take, 1, 1, 1},
		}},
		{"log, all its entries in one call", []rule.Limit{largest}, []at{
			{t0, take, 10_001, 1, 0}, // never
			{t0, take, 1, 1e9, 10_000},
			{t0 + 1, take, 10_001, 1, 0},
			{t0 + 1, take, 1, 1, 0},
			{t0 + 60*second, take, 10_000, 1, 1},
			{t0 + 61*second, charge, 1e12, 1, 1},
			{t0 + 121*second - 1, take, 1, 1, 0},
			{t0 + 121*second, take, 1, 1, 1},
		}},
		{"log, more entries ahead than one call pulls back", []rule.Limit{largest}, []at{
			{t0 + hour, take, 1, 2500, 2500},
			{t0, take, 1, 7501, 7500},
			{t0 + 1, take, 1, 1, 0},
			{t0 + 2, take, 1, 1, 0},
			{t0 + 3, scripts.Peek, 1, 0, 0},
			{t0 + 3 + 61*second, take, 1, 10_001, 10_000},
		}},
		{"debt of ten years, again and again", []rule.Limit{fastest}, []at{
			{t0, charge, math.MaxInt64, 1, 1},
			{t0 + 1, charge, math.MaxInt64, 1, 1},
			{t0 + second, charge, math.MaxInt64, 1, 1},
			{t0 + 200*24*hour, take, 1, 1, 0},
			{t0 - hour, take, 1, 1, 0},
		}},
		{"eight limits of every kind", []rule.Limit{
			bucket, gcra, sliding, fixed,
			{Algorithm: rule.TokenBucket, Rate: 1e9, Period: 1000, Burst: 1e9},
			{Algorithm: rule.GCRA, Rate: 1, Period: year, Burst: 9},
			{Algorithm: rule.SlidingWindow, Rate: 1e9, Period: year},
			{Algorithm: rule.FixedWindow, Rate: 6, Period: 1000},
		}, []at{
			{t0, take, 3, 1, 1},
			{t0, take, 3, 1, 0},
			{t0, take, 1, 9, 2},
			{t0 + 500, take, 1, 1, 0},
			{t0 + 8*second, take, 1, 9, 0},  // the windows are still full
			{t0 + 18*second, take, 1, 9, 4}, // 5 of 9 a year were used
			{t0 + hour, take, 1, 1, 0},
			{t0 - hour, take, 1, 1, 0},
			{t0 + 2*year, take, 1, 9, 2}, // two a year
		}},
		{"a window of 1 ms, over its edges", []rule.Limit{{Algorithm: rule.FixedWindow, Rate: 2, Period: 1000}}, []at{
			{t0 + 999, take, 1, 9, 2},
			{t0 + 1000, take, 1, 9, 2},
			{t0 + 999, take, 1, 1, 0},
			{t0 - 3000, take, 1, 1, 0},
			{t0 + 2000, take, 1, 9, 2},
			{t0 - 2*second, take, 1, 1, 0},
			{t0 - 2*second + 1000, take, 1, 9, 2},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rdb, model := connect(t), memory.New()
			plan, key := scripts.NewPlan(tt.limits...), redistest.Prefix(t)
			for i, a := range tt.calls {
				c := &scripts.Call{Plan: plan, Op: a.op, Key: key, Cost: a.cost, Count: a.count, Nonce: uint64(i), Clock: testclock.At(a.now)}
				got, want := both(t, rdb, model, c)
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(scripts.Reply{}), sameStates); diff != "" {
					t.Errorf("call %d: Lua differs from Go (-go +lua):\n%s", i, diff)
				}
				if got.Granted != a.granted {
					t.Errorf("call %d: %+v: %d granted, want %d: %+v", i, a, got.Granted, a.granted, got)
				}
			}
		})
	}
}

// both makes the call in Redis and in the model.
func both(t *testing.T, rdb *redis.ClusterClient, model *memory.Store, c *scripts.Call) (lua, golang scripts.Reply) {
	t.Helper()
	if c.Plan.Windowed() {
		now, _ := c.Clock.Micros()
		c.Window = c.InWindow(now)
	}
	text, err := send(t, rdb, c).Text()
	if err != nil {
		t.Fatal(err)
	}
	lua, err = c.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	golang, err = model.Do(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return lua, golang
}

// TestForeignValues puts into the key what no script of ours writes. Each call
// either fails, and leaves the value alone, or what it replies and stores keeps
// to its bounds: no negative wait, no key without a TTL.
func TestForeignValues(t *testing.T) {
	rdb := connect(t)
	values := map[string]any{
		"text": "abc", "nothing": "", "a number": "12345", "a negative one": "-5", "a huge one": "1e300", "not a number": "nan",
		"12 bytes": strings.Repeat("\xff", 12), "12 of text": "hello, world", "16 bytes": strings.Repeat("\xff", 16),
		"24 bytes": strings.Repeat("\xfe", 24), "32 bytes": strings.Repeat("\x7f", 32), "40 bytes": strings.Repeat("\xff", 40),
		"48 bytes": strings.Repeat("\x7f", 48), "56 bytes": strings.Repeat("\x41", 56), "64 bytes": strings.Repeat("\xff", 64),
		"72 bytes": strings.Repeat("\x41", 72), "a lease's mark": "L", "a whole one of a lease": "L" + strings.Repeat("\x41", 40),
		"1 KiB": strings.Repeat("x", 1<<10), "a reset's mark": "R", "a whole one": "R" + strings.Repeat("\xff", 16),
	}
	for _, c := range calls() {
		for name, value := range values {
			foreign(t, rdb, *c, name, func(key string) error { return rdb.Set(t.Context(), key, value, time.Hour).Err() })
		}
		foreign(t, rdb, *c, "a list", func(key string) error { return rdb.RPush(t.Context(), key, "x").Err() })
		foreign(t, rdb, *c, "a sorted set", func(key string) error {
			return rdb.ZAdd(t.Context(), key, redis.Z{Score: math.Inf(1), Member: "x"}, redis.Z{Score: -5, Member: "y"}).Err()
		})
	}
}

func foreign(t *testing.T, rdb *redis.ClusterClient, c scripts.Call, name string, put func(key string) error) {
	t.Helper()
	c.Key = redistest.Prefix(t)
	c.Nonce = 1
	if c.Op == scripts.Lease {
		c.Lease = scripts.Ask{Want: 4, Offered: 4, Settle: []scripts.Settlement{{At: t0, Size: 2, Unspent: 1}}}
	}
	if c.Op == scripts.Give {
		c.Receipt = scripts.Receipt{Now: t0, Granted: 3, At: make([]float64, len(c.Plan.Limits()))}
	}
	key := c.Key
	if c.Plan.Windowed() {
		c.Clock = testclock.At(c.Window * c.Plan.Limits()[0].Period)
		key = keys.InWindow(key, c.Window)
	}
	if err := put(key); err != nil {
		t.Fatal(err)
	}
	before := rdb.Dump(t.Context(), key).Val()
	what := c.Script().Name + ", " + name
	text, err := send(t, rdb, &c).Text()
	if err != nil {
		if after := rdb.Dump(t.Context(), key).Val(); before != after {
			t.Errorf("%s: op %d failed with %v, and changed the key", what, c.Op, err)
		}
		return
	}
	if after := rdb.Dump(t.Context(), key).Val(); after != "" && after != before {
		if rdb.PTTL(t.Context(), key).Val() == -1 {
			t.Errorf("%s: op %d wrote a key without a TTL", what, c.Op)
		}
	}
	r, err := c.Decode(text)
	if err != nil || c.Op == scripts.Give || c.Op == scripts.Reset {
		return
	}
	for i, l := range c.Plan.Limits() {
		left, retry, reset := l.Remaining(r.State(i), r.Now), l.RetryAfter(r.State(i), r.Now, 1), l.ResetAfter(r.State(i), r.Now)
		if left < 0 || left > l.Capacity() || retry < 0 || reset < 0 {
			t.Errorf("%s: op %d: %d remain, retry after %d, reset after %d: %+v", what, c.Op, left, retry, reset, r)
		}
	}
}

// TestARefundRemovesItsOwnEntries gives back one of the requests that a single
// call charged to a sliding_log.
func TestARefundRemovesItsOwnEntries(t *testing.T) {
	rdb, model := connect(t), memory.New()
	plan := scripts.NewPlan(rule.Limit{Algorithm: rule.SlidingLog, Rate: 10, Period: 10 * second})
	key := redistest.Prefix(t)
	do := func(c scripts.Call) scripts.Reply {
		t.Helper()
		c.Plan, c.Key, c.Nonce, c.Clock = plan, key, 1, testclock.At(t0)
		lua, golang := both(t, rdb, model, &c)
		if diff := cmp.Diff(golang, lua, cmp.AllowUnexported(scripts.Reply{}), sameStates); diff != "" {
			t.Errorf("op %d: Lua differs from Go (-go +lua):\n%s", c.Op, diff)
		}
		return lua
	}
	do(scripts.Call{Op: scripts.Take, Cost: 3, Count: 3})
	second := scripts.Receipt{Now: t0, Granted: 3, At: []float64{t0}, Nonce: 1, Offset: 3}
	for _, want := range []int64{1, 0} { // the same again finds nothing
		if r := do(scripts.Call{Op: scripts.Give, Receipt: second}); r.Granted != want {
			t.Errorf("give of the second request = %d, want %d", r.Granted, want)
		}
	}
	members := rdb.ZRange(t.Context(), key, 0, -1).Val()
	want := []string{}
	for _, number := range "123789" {
		want = append(want, "\x00\x00\x00\x00\x00\x00\x00\x01"+string(number))
	}
	if diff := cmp.Diff(want, members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}
