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

// Moved is what an Upheaval came to.
type Moved struct {
	Slots   int `json:"slots_moved"`
	Flushes int `json:"script_flushes"` // a node each
}

// CanUpheave reports whether the cluster is the demo's own.
func (s *Stage) CanUpheave() bool { return s.cluster != nil }

// Upheave makes all nodes forget their scripts, moves slots from the shard that
// serves u.Slot to another, and makes them forget again. It tells of each step.
// Where ctx ends first, what is moved so far stays so.
func (s *Stage) Upheave(ctx context.Context, u Upheaval, tell func(string)) (Moved, error) {
	var done Moved
	from, to, err := s.fromTo(ctx, u.Slot)
	if err != nil {
		return done, err
	}
	names := fmt.Sprintf("shard %d to shard %d", s.number(from), s.number(to))

	if err := s.flush(ctx, &done, tell); err != nil {
		return done, err
	}
	tell(fmt.Sprintf("moving slot %d, that of the hottest subject, key by key from %s", u.Slot, names))
	if err := s.cluster.MoveSlot(ctx, u.Slot, to, u.Pace); err != nil {
		return done, err
	}
	done.Slots++

	tell(fmt.Sprintf("moving %d more slots from %s", u.Slots, names))
	start := time.Now()
	if err := s.cluster.Reshard(ctx, from, to, u.Slots); err != nil {
		return done, err
	}
	done.Slots += u.Slots
	tell(fmt.Sprintf("moved them in %.1f s", time.Since(start).Seconds()))
	return done, s.flush(ctx, &done, tell)
}

func (s *Stage) flush(ctx context.Context, done *Moved, tell func(string)) error {
	if err := s.cluster.FlushScripts(ctx); err != nil {
		return err
	}
	nodes := len(s.cluster.Nodes())
	done.Flushes += nodes
	tell(fmt.Sprintf("flushed the scripts of all %d nodes", nodes))
	return nil
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

// number returns a shard's number as people count.
func (s *Stage) number(n *rediscluster.Node) int { return slices.Index(s.owners.addrs, n.Addr()) + 1 }
