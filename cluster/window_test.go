package cluster

import (
	"testing"

	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// hour is an hour in µs.
const hour = 3600 * 1_000_000

// hourly is a plan of ten units an hour.
var hourly = scripts.NewPlan(rule.Limit{Algorithm: rule.FixedWindow, Rate: 10, Period: hour})

func TestDoLearnsTheShardsClock(t *testing.T) {
	for name, ahead := range map[string]int64{"ahead": 90 * hour / 60, "behind": -90 * hour / 60, "right": 0} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, redistest.Shared(t), nil)
			sent := count(c.rdb)
			c.origin.micros += ahead
			key := tagged(t)

			reply := do(t, c, take(hourly, key))
			if got, want := reply.State(0).At, float64(keys.Window(reply.Now, hour)); got != want {
				t.Errorf("charged in window %v, want the shard's %v", got, want)
			}
			first := sent.evalsha.Load()
			if want := int64(1); ahead == 0 && first != want || ahead != 0 && first != want+1 {
				t.Errorf("the first call was sent %d times", first)
			}
			if got := allow(t, c, hourly, key, 12); got != 9 {
				t.Errorf("12 more calls on 9 units: %d granted", got)
			}
			if got := sent.evalsha.Load() - first; got != 12 {
				t.Errorf("12 calls were sent %d times once the clock was known", got)
			}
		})
	}
}

func TestEveryOperationFindsItsWindow(t *testing.T) {
	for _, op := range []scripts.Op{scripts.Take, scripts.Charge, scripts.Peek, scripts.Reset} {
		c := newTestClient(t, redistest.Shared(t), nil)
		c.origin.micros -= 100 * hour
		call := take(hourly, tagged(t))
		call.Op = op
		if reply := do(t, c, call); reply.Granted == scripts.OtherWindow {
			t.Errorf("operation %d was answered for another window", op)
		}
	}
}

func TestAFixedClockGivesTheWindow(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t), nil)
	key := tagged(t)
	const then = 1_000_000 * hour
	call := take(hourly, key)
	call.Clock = testclock.At(then)
	if reply := do(t, c, call); reply.Now != then || reply.State(0).At != 1_000_000 {
		t.Errorf("reply = %+v, want one of window 1000000", reply)
	}
	if got := used(t, c, hourly, key); got != 0 {
		t.Errorf("%d units used in the window of the real clock, want 0", got)
	}
}

func TestLearnKeepsWhatAReplyDoesNotDisprove(t *testing.T) {
	tests := []struct {
		name                  string
		known                 int64
		shard, sent, received int64
		want                  int64
	}{
		{"within", 5, 1005, 990, 1010, 5},
		{"too far behind", 0, 2000, 990, 1010, 990},
		{"too far ahead", 5000, 2000, 990, 1010, 1010},
		{"exact", 7, 1000, 1000, 1000, 0},
		{"a slow reply proves little", 40, 1000, 900, 1100, 40},
	}
	for _, tt := range tests {
		c := &clock{}
		c.ahead.Store(tt.known)
		c.learn(tt.shard, tt.sent, tt.received)
		if got := c.ahead.Load(); got != tt.want {
			t.Errorf("%s: learn(%d, %d, %d) from %d gives %d, want %d",
				tt.name, tt.shard, tt.sent, tt.received, tt.known, got, tt.want)
		}
	}
}
