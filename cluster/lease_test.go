package cluster

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/scripts"
)

// lendable is a plan of a thousand units a day, of which 250 may be lent.
var lendable = scripts.NewPlan(rule.Limit{Algorithm: rule.TokenBucket, Rate: 1000, Period: 24 * hour, Burst: 1000})

// ask returns a call for a lease that is of use for within after it is sent.
func ask(plan *scripts.Plan, key string, within time.Duration, settle ...scripts.Settlement) *scripts.Call {
	return &scripts.Call{Plan: plan, Op: scripts.Lease, Key: key, Lease: scripts.Ask{Want: 100, Within: within, Settle: settle}}
}

func TestALeaseIsOfUseByTheShardsClock(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t), nil)
	c.origin.micros -= hour
	key := tagged(t)
	if got := do(t, c, ask(lendable, key, time.Minute)).Granted; got != 0 {
		t.Errorf("before the clock is known %d units lent, by a script that ran an hour too late", got)
	}
	if got := do(t, c, ask(lendable, key, time.Minute)).Granted; got != 100 {
		t.Errorf("%d units lent, want 100", got)
	}
}

func TestALeaseAskThatRunsLateChargesNothing(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t), nil)
	key := tagged(t)
	lent := do(t, c, ask(lendable, key, time.Minute))
	node, err := c.cluster.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Do(t.Context(), "client", "pause", 300, "write").Err(); err != nil {
		t.Fatal(err)
	}
	settle := scripts.Settlement{At: lent.Now, Size: 100, Unspent: 100}
	late := do(t, c, ask(lendable, key, 10*time.Millisecond, settle))
	if used := late.State(0).Used / (24 * hour); late.Granted != 0 || used > 100 {
		t.Errorf("%d units lent to who has given up, %v used; want none, and at most the 100 of before", late.Granted, used)
	}
}

// A windowed plan's asks go to the window of now, what only settles to the window
// that was lent from.
func TestSettlementsFindTheirWindow(t *testing.T) {
	plan := scripts.NewPlan(rule.Limit{Algorithm: rule.FixedWindow, Rate: 1000, Period: hour})
	c := newTestClient(t, redistest.Shared(t), nil)
	key := tagged(t)
	const then = 1_000_000 * hour
	at := func(now int64, call *scripts.Call) scripts.Reply {
		t.Helper()
		call.Clock = testclock.At(now)
		return do(t, c, call)
	}
	lent := at(then, ask(plan, key, 0))
	if lent.Granted != 100 || lent.State(0) != (rule.State{At: 1_000_000, Used: 100}) {
		t.Fatalf("reply = %+v, want 100 lent of window 1000000", lent)
	}
	settle := &scripts.Call{Plan: plan, Op: scripts.Lease, Key: key}
	settle.Lease.Settle = []scripts.Settlement{{At: lent.Now, Size: 100, Unspent: 70}}
	settled := at(then+hour, settle)
	if got := settled.State(0); got != (rule.State{At: 1_000_000, Used: 30}) {
		t.Errorf("after the settlement: %+v, want 30 used of window 1000000", got)
	}
	next := at(then+hour, ask(plan, key, 0))
	if got := next.State(0); got != (rule.State{At: 1_000_001, Used: 100}) {
		t.Errorf("the next ask: %+v, want 100 used of window 1000001", got)
	}
}
