package demo_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // of each refusal by the primary that is gone
	redistest.Main(m)
}

// visitor is a reporter that asks for an action whenever it was told of what
// comes before it in its plan, and ends the demo after the last.
type visitor struct {
	t     *testing.T
	plan  []step
	ask   chan<- demo.Action
	leave context.CancelFunc
	fell  int64 // decisions of a failure mode
	end   demo.End
}

// step is an action to ask for once an event was told; "" is the first tick.
type step struct {
	after string
	ask   demo.Action // "": leave
}

func (v *visitor) Opening(string)   {}
func (v *visitor) Scene(demo.Scene) {}
func (v *visitor) End(e demo.End)   { v.end = e }

func (v *visitor) Event(_ time.Duration, text string) {
	v.t.Log(text)
	if len(v.plan) > 0 && v.plan[0].after != "" && strings.Contains(text, v.plan[0].after) {
		v.next()
	}
}

func (v *visitor) Tick(t demo.Tick) {
	v.fell += t.Fallback
	if len(v.plan) > 0 && v.plan[0].after == "" && t.Decisions() > 0 {
		v.next()
	}
}

func (v *visitor) next() {
	if a := v.plan[0].ask; a != "" {
		v.ask <- a
	} else {
		v.leave()
	}
	v.plan = v.plan[1:]
}

// visit plays a demo in which someone does what the plan says, and returns its
// end.
func visit(t *testing.T, replicas int, plan ...step) (*visitor, bool) {
	t.Helper()
	redistest.Shared(t) // skips where there is no server
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	actions := make(chan demo.Action, len(plan))
	v := &visitor{t: t, plan: plan, ask: actions, leave: leave}
	kept, err := demo.Run(ctx, demo.Options{
		Stage:    stage.Options{Server: os.Getenv("REDISTEST_SERVER"), Replicas: replicas},
		Duration: time.Hour, Workers: 8, Subjects: 1000, Seed: 1, Slots: 50, Actions: actions,
		Tick: 100 * time.Millisecond,
	}, v)
	if err != nil {
		t.Fatal(err)
	}
	return v, kept
}

func TestKilledPrimaryCostsNoMoreThanItsReplicaHadNotReceived(t *testing.T) {
	v, kept := visit(t, 1,
		step{"", demo.Restart},
		step{"every node runs", demo.Kill},
		step{"took over", demo.Move},
		step{"moved them", demo.Restart},
		step{"in step", demo.Kill},
		step{"took over", demo.Flush},
		step{"flushed the scripts of the 5 nodes", ""},
	)
	if !kept || v.end.Ledger.Lost > v.end.Ledger.AtRisk {
		t.Errorf("ledger %+v, want nothing over but what was at risk", v.end.Ledger)
	}
	want := stage.Done{Slots: 51, Flushes: 5, Kills: 2, Restarts: 1}
	if v.end.Done != want {
		t.Errorf("done: %+v, want %+v", v.end.Done, want)
	}
	var unknown int64
	for _, l := range v.end.Ledger.Lines {
		unknown += l.Unknown
	}
	if v.fell == 0 || unknown < v.fell {
		t.Errorf("%d answers of the failure mode while a primary was down, %d in the ledger", v.fell, unknown)
	}
}

func TestNothingIsKilledWhereNoReplicaIsLeft(t *testing.T) {
	v, kept := visit(t, 0, step{"", demo.Kill}, step{stage.ErrNoReplica.Error(), ""})
	if !kept || v.end.Done.Kills != 0 {
		t.Errorf("kept %v, done %+v", kept, v.end.Done)
	}
}
