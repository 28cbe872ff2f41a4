package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
)

// Action is something that whoever watches may do to the cluster.
type Action string

// The actions.
const (
	Kill    Action = "kill"    // the primary of the hottest subject's shard, or another that has a replica
	Restart Action = "restart" // what was killed
	Move    Action = "move"    // the slot of the hottest subject key by key, and more besides
	Flush   Action = "flush"   // all scripts
)

// plot is what happens to the stage while the traffic goes on.
type plot struct {
	*play
	events chan string
	err    error // to be read once run has returned
}

// run does what it's asked to do, or turns the cluster upside down at half-time
// if it may and wasn't asked. It returns when the time is up and that is done,
// or ctx has ended.
func (t *plot) run(ctx context.Context) {
	timeUp := time.After(t.Duration)
	var halfway <-chan time.Time
	if t.stage.CanUpheave() {
		halfway = time.After(t.Duration / 2)
	}
	for t.err == nil {
		select {
		case <-ctx.Done():
			return
		case <-timeUp:
			return
		case <-halfway:
			t.upheave(ctx)
		case a := <-t.Actions:
			halfway = nil
			t.act(ctx, a)
		}
	}
}

func (t *plot) upheave(ctx context.Context) {
	err := t.stage.Upheave(ctx, t.upheaval(), t.tell(ctx))
	if ctx.Err() == nil { // else interrupted on purpose
		t.err = err
	}
}

func (t *plot) upheaval() stage.Upheaval {
	const longest = 2 * time.Second
	return stage.Upheaval{Slot: t.traffic.HottestSlot(), Pace: min(t.Duration/8, longest), Slots: t.Slots}
}

// act does one thing. That it can't be done is no more than an event: whoever
// watches may ask for what makes no sense.
func (t *plot) act(ctx context.Context, a Action) {
	var err error
	tell := t.tell(ctx)
	switch a {
	case Kill:
		err = t.stage.Kill(ctx, t.traffic.HottestSlot(), t.expose, tell)
	case Restart:
		err = t.stage.Restart(ctx, tell)
	case Move:
		err = t.stage.Move(ctx, t.upheaval(), tell)
	case Flush:
		err = t.stage.Flush(ctx, tell)
	}
	if err != nil && ctx.Err() == nil {
		tell(fmt.Sprintf("%s: %v", a, err))
	}
}

// expose tells the tally of a primary that is about to be killed.
func (t *plot) expose(shard int) (gone func()) {
	end := t.tally.Expose(shard, time.Since(t.start))
	return func() { end(time.Since(t.start)) }
}

func (t *plot) tell(ctx context.Context) func(string) {
	return func(text string) {
		select {
		case t.events <- text:
		case <-ctx.Done():
		}
	}
}
