package stage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// Upheaval is what is done to a cluster under load.
type Upheaval struct {
	Slot  int           // moved key by key
	Pace  time.Duration // which takes about this long
	Slots int           // moved besides, as fast as it goes
}

// Done is what was done to a cluster.
type Done struct {
	Slots    int `json:"slots_moved"`
	Flushes  int `json:"script_flushes"` // a node each
	Kills    int `json:"primaries_killed,omitempty"`
	Restarts int `json:"nodes_restarted,omitempty"`
}

// CanUpheave reports whether the cluster is the demo's own.
func (s *Stage) CanUpheave() bool { return s.cluster != nil }

// Done returns what was done so far.
func (s *Stage) Done() Done {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// did counts what was done.
func (s *Stage) did(count func(*Done)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.done)
}

// Upheave makes all nodes forget their scripts, moves slots, and makes them
// forget again. It tells of each step.
func (s *Stage) Upheave(ctx context.Context, u Upheaval, tell func(string)) error {
	if err := s.Flush(ctx, tell); err != nil {
		return err
	}
	if err := s.Move(ctx, u, tell); err != nil {
		return err
	}
	return s.Flush(ctx, tell)
}

// Move moves slots from the shard that serves u.Slot to another. Where ctx ends
// first, what is moved so far stays so.
func (s *Stage) Move(ctx context.Context, u Upheaval, tell func(string)) error {
	from, to, err := s.fromTo(ctx, u.Slot)
	if err != nil {
		return err
	}
	i, j := s.owners.number(from.Addr()), s.owners.number(to.Addr())
	s.moving.Store(&[2]int{i, j})
	defer s.moving.Store(nil)
	names := fmt.Sprintf("shard %d to shard %d", i+1, j+1)

	tell(fmt.Sprintf("moving slot %d, that of the hottest subject, key by key from %s", u.Slot, names))
	if err := s.cluster.MoveSlot(ctx, u.Slot, to, u.Pace); err != nil {
		return err
	}
	s.did(func(d *Done) { d.Slots++ })

	tell(fmt.Sprintf("moving %d more slots from %s", u.Slots, names))
	start := time.Now()
	if err := s.cluster.Reshard(ctx, from, to, u.Slots); err != nil {
		return err
	}
	s.did(func(d *Done) { d.Slots += u.Slots })
	tell(fmt.Sprintf("moved them in %.1f s", time.Since(start).Seconds()))
	return nil
}

// Flush makes all running nodes forget their scripts.
func (s *Stage) Flush(ctx context.Context, tell func(string)) error {
	nodes := s.running()
	if err := s.cluster.FlushScripts(ctx, nodes...); err != nil {
		return err
	}
	s.did(func(d *Done) { d.Flushes += len(nodes) })
	which := "all"
	if len(nodes) < len(s.cluster.Nodes()) {
		which = "the"
	}
	tell(fmt.Sprintf("flushed the scripts of %s %d nodes", which, len(nodes)))
	return nil
}

func (s *Stage) running() []*rediscluster.Node {
	return slices.DeleteFunc(s.cluster.Nodes(), func(n *rediscluster.Node) bool { return !n.Running() })
}

// fromTo returns the slot's owner and the primary after it.
func (s *Stage) fromTo(ctx context.Context, slot int) (from, to *rediscluster.Node, err error) {
	if from, err = s.cluster.Owner(ctx, slot); err != nil {
		return nil, nil, err
	}
	primaries, err := s.cluster.Primaries(ctx)
	if err != nil {
		return nil, nil, err
	}
	return from, primaries[(slices.Index(primaries, from)+1)%len(primaries)], nil
}
