package stage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The reasons for which there's nothing to kill or to restart.
var (
	ErrNoReplica = errors.New("no shard has a replica left: restart what was killed first")
	ErrAllRun    = errors.New("every node runs")
)

// CanKill reports whether the cluster is the demo's own and recovers by itself
// from the loss of a primary.
func (s *Stage) CanKill() bool { return s.cluster != nil && s.opts.Replicas > 0 }

// Kill kills the primary that serves the slot or, where its shard has no
// replica left, another that has one. It returns once a replica has been
// promoted.
//
// Before that it calls expose with the shard's number: what the shard admits
// from then on, until the function that expose returns is called, may be lost.
// All that was admitted before, the replicas have.
func (s *Stage) Kill(ctx context.Context, slot int, expose func(shard int) (gone func()), tell func(string)) error {
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	i, shard, err := s.choose(slot)
	if err != nil {
		return err
	}
	primary := s.cluster.Node(shard.primary)
	gone := expose(i)
	err = s.cluster.InStep(ctx, primary)
	if err == nil {
		err = primary.Kill(ctx)
	}
	gone()
	if err != nil {
		return err
	}
	start := time.Now()
	s.did(func(d *Done) { d.Kills++ })
	tell(fmt.Sprintf("killed the primary of shard %d, %s", i+1, shard.primary))
	if err := s.cluster.Wait(ctx); err != nil {
		return err
	}
	tell(fmt.Sprintf("a replica of shard %d took over after %.1f s", i+1, time.Since(start).Seconds()))
	return nil
}

// choose returns the shard to hit.
func (s *Stage) choose(slot int) (int, owner, error) {
	shards := s.owners.all()
	first := max(0, s.owners.of(uint16(slot)))
	for i := range shards {
		i = (first + i) % len(shards)
		if s.runs(shards[i].primary) && len(s.replicas(shards[i])) > 0 {
			return i, shards[i], nil
		}
	}
	return 0, owner{}, ErrNoReplica
}

// Restart starts all that Kill killed, and returns once they are in step as
// replicas.
func (s *Stage) Restart(ctx context.Context, tell func(string)) error {
	restarted := 0
	for _, n := range s.cluster.Nodes() {
		if n.Running() {
			continue
		}
		if err := n.Restart(ctx); err != nil {
			return err
		}
		restarted++
		s.did(func(d *Done) { d.Restarts++ })
		tell(fmt.Sprintf("restarted %s of shard %d, which lost all it had", n.Addr(), s.owners.number(n.Addr())+1))
	}
	if restarted == 0 {
		return ErrAllRun
	}
	if err := s.cluster.Wait(ctx); err != nil {
		return err
	}
	tell("all replicas are in step")
	return nil
}
