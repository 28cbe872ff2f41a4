package scripts_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestLuaAgreesWithGo drives the scripts and their reference with the same
// random histories: policies, costs, changes of rate, clocks that step both
// ways, receipts and resets. Every field of every reply must be equal.
func TestLuaAgreesWithGo(t *testing.T) {
	const subjects = 200
	steps := 500 // 100,000 calls an algorithm
	if raced {
		steps = 50 // ten times as slow, and one goroutine an algorithm
	}
	for _, shape := range []struct {
		name       string
		algorithms []rule.Algorithm
	}{
		{"token_bucket", []rule.Algorithm{rule.TokenBucket}},
		{"gcra", []rule.Algorithm{rule.GCRA}},
		{"sliding_window", []rule.Algorithm{rule.SlidingWindow}},
		{"sliding_log", []rule.Algorithm{rule.SlidingLog}},
		{"fixed_window", []rule.Algorithm{rule.FixedWindow}},
		{"several", []rule.Algorithm{rule.TokenBucket, rule.FixedWindow, rule.SlidingWindow, rule.GCRA}},
	} {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			rdb := connect(t)
			model := memory.New()
			histories := make([]*history, subjects)
			for i := range histories {
				histories[i] = newHistory(rng, fmt.Sprintf("%s:{%d}", redistest.Prefix(t), i), shape.algorithms)
			}
			for range steps {
				step(t, rng, rdb, model, histories)
			}
		})
	}
}

// connect returns a client of the shared cluster, whose nodes have all scripts.
func connect(t *testing.T) *redis.ClusterClient {
	t.Helper()
	rdb := redistest.Client(t, redistest.Shared(t), nil)
	for _, s := range scripts.All() {
		if sha := load(t, rdb, s.Text); sha != s.SHA {
			t.Fatalf("SCRIPT LOAD %s = %q, want %q", s.Name, sha, s.SHA)
		}
	}
	return rdb
}

// load gives all nodes a script, and returns its SHA.
func load(t *testing.T, rdb *redis.ClusterClient, text string) string {
	t.Helper()
	sha, err := rdb.ScriptLoad(t.Context(), text).Result()
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// step makes one call on each history, all in one pipeline, and compares.
func step(t *testing.T, rng *rand.Rand, rdb *redis.ClusterClient, model *memory.Store, histories []*history) {
	t.Helper()
	pipe := rdb.Pipeline()
	calls := make([]*scripts.Call, len(histories))
	replies := make([]*redis.Cmd, len(histories))
	for i, h := range histories {
		calls[i] = h.next(rng)
		replies[i] = send(t, pipe, calls[i])
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatalf("step: %v", err)
	}
	for i, h := range histories {
		text, err := replies[i].Text()
		if err != nil {
			t.Fatalf("%s: %v", h, err)
		}
		got, err := calls[i].Decode(text)
		if err != nil || len(text) > scripts.LongestReply {
			t.Fatalf("%s: %d bytes, %v", h, len(text), err)
		}
		want, err := model.Do(t.Context(), calls[i])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(scripts.Reply{}), sameStates); diff != "" {
			t.Fatalf("%s: Lua differs from Go (-go +lua):\n%s", h, diff)
		}
		h.record(calls[i], got)
	}
}

// sameStates takes no states and zero states for the same.
var sameStates = cmp.Comparer(func(a, b []rule.State) bool {
	for i := range max(len(a), len(b)) {
		var x, y rule.State
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return false
		}
	}
	return true
})

// doer is a client or a pipeline.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

func send(t *testing.T, rdb doer, c *scripts.Call) *redis.Cmd {
	t.Helper()
	key := c.Key
	if c.Plan.Windowed() {
		key = keys.InWindow(key, c.Window)
	}
	args := []any{"evalsha", c.Script().SHA, 1, key}
	return rdb.Do(t.Context(), c.AppendArgs(args)...)
}

// history is what has happened to one key.
type history struct {
	key      string
	plans    []*scripts.Plan // same shape, other rates and bursts
	plan     *scripts.Plan
	now      int64 // µs, the step clock
	receipts []scripts.Receipt
	windows  []int64 // of the receipts
	lends    bool    // every other history of what may be lent
	leases   []scripts.Settlement
	last     []said // the last calls, to print
}

// said is a call, when it was made, and what was answered.
type said struct {
	now   int64
	call  *scripts.Call
	reply scripts.Reply
}

func (h *history) String() string {
	var b strings.Builder
	for _, s := range h.last {
		c := s.call
		fmt.Fprintf(&b, "%d op %d cost %d count %d ask %+v limits %+v -> %+v\n", s.now, c.Op, c.Cost, c.Count, c.Lease, c.Plan.Limits(), s.reply)
	}
	return b.String()
}

func newHistory(rng *rand.Rand, key string, algorithms []rule.Algorithm) *history {
	h := &history{key: key, now: 1780272000e6 + rng.Int64N(1e12)}
	periods := make([]int64, len(algorithms))
	for i := range periods {
		periods[i] = randomPeriod(rng)
	}
	for range 3 {
		limits := make([]rule.Limit, len(algorithms))
		for i, a := range algorithms {
			limits[i] = randomLimit(rng, a, periods[i])
		}
		h.plans = append(h.plans, scripts.NewPlan(limits...))
	}
	h.plan = h.plans[0]
	lone := len(algorithms) == 1 && algorithms[0] != rule.GCRA && algorithms[0] != rule.SlidingLog
	h.lends = lone && periods[0] >= second && rng.IntN(2) == 0
	return h
}

func randomPeriod(rng *rand.Rand) int64 {
	common := []int64{1e3, 1e4, 1e6, 1e7, 60e6, 3600e6, 86400e6, 366 * 86400e6}
	if rng.IntN(4) > 0 {
		return common[rng.IntN(len(common))]
	}
	return 1e3 + rng.Int64N(1e8)
}

// randomLimit returns a valid limit of algorithm a.
func randomLimit(rng *rand.Rand, a rule.Algorithm, period int64) rule.Limit {
	scale := []int64{5, 100, 1000, 1e6, 1e9}[rng.IntN(5)]
	l := rule.Limit{Algorithm: a, Rate: 1 + rng.Int64N(scale), Period: period}
	switch a {
	case rule.SlidingLog:
		l.Rate = 1 + rng.Int64N(50)
		if rng.IntN(20) == 0 {
			l.Rate = 3000
		}
	case rule.GCRA:
		l.Rate = min(l.Rate, max(period*2/125, 1))
		fallthrough
	case rule.TokenBucket:
		l.Burst = 1 + rng.Int64N(scale)
		tenYears := 10 * 365 * 86400e6 * float64(l.Rate) / float64(period)
		l.Burst = max(1, min(l.Burst, int64(tenYears)))
	case rule.SlidingWindow, rule.FixedWindow: // they have no burst
	}
	return l
}

// next moves the clock and chooses the next call.
func (h *history) next(rng *rand.Rand) *scripts.Call {
	h.now = min(max(h.now+h.tick(rng), 1700000000e6), 8e15) // 2023 to 2223
	if rng.IntN(40) == 0 {
		h.plan = h.plans[rng.IntN(len(h.plans))]
	}
	c := &scripts.Call{Plan: h.plan, Key: h.key, Clock: testclock.At(h.now), Cost: h.cost(rng), Count: 1}
	if c.Plan.Windowed() {
		c.Window = keys.Window(h.now, h.plan.Limits()[0].Period)
	}
	switch p := rng.IntN(100); {
	case p < 8:
		c.Op = scripts.Peek
	case p < 18 && len(h.receipts) > 0:
		i := rng.IntN(len(h.receipts))
		c.Op, c.Receipt = scripts.Give, h.receipts[i]
		if c.Plan.Windowed() {
			c.Window = h.windows[i]
		}
		if h.has(rule.SlidingLog) && rng.IntN(2) == 0 { // of one of the requests that the call charged
			c.Receipt.Offset = rng.Int64N(c.Receipt.Granted)
			c.Receipt.Granted = 1 + rng.Int64N(c.Receipt.Granted-c.Receipt.Offset)
		}
	case p < 20:
		c.Op = scripts.Reset
	case p < 55 && h.lends:
		c.Op, c.Lease = scripts.Lease, h.ask(rng)
		c.Window = c.InWindow(h.now)
	case p < 25 && !h.has(rule.GCRA):
		c.Op, c.Nonce, c.Cost = scripts.Charge, rng.Uint64(), h.debt(rng)
	default:
		c.Op, c.Nonce, c.Count = scripts.Take, rng.Uint64(), h.count(rng)
	}
	return c
}

func (h *history) has(a rule.Algorithm) bool {
	for _, l := range h.plan.Limits() {
		if l.Algorithm == a {
			return true
		}
	}
	return false
}

// tick is how far the clock moves: mostly on, by any share of a period, at
// times not at all, back a little, or far either way.
func (h *history) tick(rng *rand.Rand) int64 {
	l := h.plan.Limits()[rng.IntN(len(h.plan.Limits()))]
	switch p := rng.IntN(100); {
	case h.lends && p < 50:
		return rng.Int64N(150_000)
	case p < 20:
		return 0
	case p < 35:
		return rng.Int64N(10)
	case p < 55:
		return rng.Int64N(l.Period/l.Rate + 2)
	case p < 80:
		return rng.Int64N(l.Period)
	case p < 88:
		return rng.Int64N(3 * l.Period)
	case p < 93:
		return -rng.Int64N(min(l.Period, 2e6))
	case p < 96:
		return -rng.Int64N(2 * l.Period)
	default:
		return rng.Int64N(7200e6) - 3600e6
	}
}

func (h *history) cost(rng *rand.Rand) int64 {
	if rng.IntN(2) == 0 {
		return 1
	}
	return 1 + rng.Int64N(h.plan.Capacity())
}

func (h *history) debt(rng *rand.Rand) int64 {
	l := h.plan.Limits()[0]
	most := h.plan.Capacity()
	if rng.IntN(5) == 0 {
		most += int64(min(10*365*86400e6/float64(l.Period)*float64(l.Rate), 1e17))
	}
	if l.Algorithm == rule.SlidingLog {
		most = 2 * l.Rate
	}
	return 1 + rng.Int64N(most)
}

func (h *history) count(rng *rand.Rand) int64 {
	switch rng.IntN(6) {
	case 0:
		return 1 + rng.Int64N(20)
	case 1:
		return 1 + rng.Int64N(h.plan.Capacity())
	default:
		return 1
	}
}

// ask wants some units, or none, and settles up to two of the leases there were:
// of any age, some of them again.
func (h *history) ask(rng *rand.Rand) scripts.Ask {
	ask := scripts.Ask{Offered: rng.Int64N(3) * rng.Int64N(h.plan.Capacity()+1)}
	if rng.IntN(4) > 0 {
		ask.Want = 1 + rng.Int64N(h.plan.Capacity())
	}
	if rng.IntN(3) == 0 {
		ask.Want = 1 + rng.Int64N(h.plan.Capacity()/4+1)
		ask.Offered = ask.Want
	}
	if rng.IntN(4) == 0 {
		ask.NotAfter = h.now - 10 + rng.Int64N(100)
	}
	for range rng.IntN(scripts.MaxSettlements + 1) {
		if len(h.leases) > 0 {
			last := len(h.leases) - 1
			s := h.leases[last-rng.IntN(min(last+1, 4))]
			s.Unspent = rng.Int64N(s.Size + 1)
			ask.Settle = append(ask.Settle, s)
		}
	}
	return ask
}

// record keeps the receipt of a charge, and the call to print.
func (h *history) record(c *scripts.Call, r scripts.Reply) {
	h.last = append(h.last[max(0, len(h.last)-12):], said{h.now, c, r})
	if r.Granted > 0 && c.Op == scripts.Lease {
		h.leases = append(h.leases, scripts.Settlement{At: r.Now, Size: r.Granted})
		return
	}
	if r.Granted <= 0 || c.Op == scripts.Lease || c.Op == scripts.Give || c.Op == scripts.Reset {
		return
	}
	receipt := scripts.Receipt{Now: r.Now, Granted: r.Granted * c.Cost, Nonce: c.Nonce}
	for i := range c.Plan.Limits() {
		receipt.At = append(receipt.At, r.State(i).At)
	}
	h.receipts = append(h.receipts, receipt)
	h.windows = append(h.windows, c.Window)
}
