package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/scripts"
)

// Job is one call of DoEach, and what became of it.
type Job struct {
	Call     *scripts.Call
	Deadline time.Time

	Reply scripts.Reply
	Err   error // as DoUntil returns it
}

// DoEach is DoUntil for many calls at once: each has its own deadline and its
// own outcome. Those that one primary serves go out together, in one round trip
// as long as they fit into the pipelines that may be under way.
func (c *Client) DoEach(ctx context.Context, jobs []Job) {
	g := &gathering{missing: len(jobs)}
	var all sync.WaitGroup
	for i := range jobs {
		all.Go(func() {
			m, j := &member{Context: ctx, gathering: g}, &jobs[i]
			j.Reply, j.Err = c.DoUntil(m, j.Deadline, j.Call)
			m.come(nil) // if it never came to a queue
		})
	}
	all.Wait()
}

// gathering holds runners back until all calls of a DoEach are in their queues,
// or are known not to come.
type gathering struct {
	mu      sync.Mutex
	missing int
	held    map[*shard]struct{}
}

// member is the context of one call of a gathering, for its own goroutine alone.
type member struct {
	context.Context
	gathering *gathering
	came      bool
}

// memberOf returns the member whose context ctx is, if its gathering still waits
// for it.
func memberOf(ctx context.Context) *member {
	if m, ok := ctx.(*member); ok && !m.came {
		return m
	}
	return nil
}

// come notes that the member's call is in the queue of s, or, of nil, in none.
// The last to come lets all go.
func (m *member) come(s *shard) {
	if m == nil || m.came {
		return
	}
	m.came = true
	for _, s := range m.gathering.come(s) {
		s.startRunners()
	}
}

// come returns the shards that are to go, once nobody is missing.
func (g *gathering) come(s *shard) []*shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing--
	if s != nil {
		if g.held == nil {
			g.held = make(map[*shard]struct{})
		}
		g.held[s] = struct{}{}
	}
	if g.missing > 0 {
		return nil
	}
	shards := make([]*shard, 0, len(g.held))
	for s := range g.held {
		shards = append(shards, s)
	}
	return shards
}

// startRunners starts as many runners as what waits fills, or may be under way.
func (s *shard) startRunners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for waits := s.queue.length; waits > 0 && s.running < s.batch.InFlight; waits -= s.batch.Calls {
		s.startRunnerLocked()
	}
}
