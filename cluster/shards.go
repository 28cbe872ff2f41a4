package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// shards are those that the client knows of, by node. Replicas are among them:
// each may be a primary tomorrow.
type shards struct {
	batch Batch
	hooks *Hooks
	local func() int64
	life  context.Context

	byNode atomic.Pointer[map[*redis.Client]*shard] // replaced, never changed

	mu     sync.Mutex // held while it is replaced
	closed bool
}

// of returns the shard of a node.
func (ss *shards) of(node *redis.Client) *shard {
	if known := ss.byNode.Load(); known != nil {
		if s, ok := (*known)[node]; ok {
			return s
		}
	}
	return ss.add(node)
}

// at returns the shard at an address, nil if none is known.
func (ss *shards) at(addr string) *shard {
	for _, s := range ss.all() {
		if s.addr == addr {
			return s
		}
	}
	return nil
}

func (ss *shards) all() map[*redis.Client]*shard {
	if known := ss.byNode.Load(); known != nil {
		return *known
	}
	return nil
}

// add adds the shard of a node, and drops those that are gone.
func (ss *shards) add(node *redis.Client) *shard {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s, ok := ss.all()[node]; ok {
		return s // another was faster
	}
	s := ss.make(node)
	if ss.closed {
		return s
	}
	now := time.Now()
	known := maps.Clone(ss.all())
	maps.DeleteFunc(known, func(_ *redis.Client, old *shard) bool {
		return old.addr == s.addr || old.forgotten(now)
	})
	if known == nil {
		known = map[*redis.Client]*shard{}
	}
	known[node] = s
	ss.byNode.Store(&known)
	return s
}

func (ss *shards) make(node *redis.Client) *shard {
	opts := node.Options()
	return &shard{
		node: node, addr: opts.Addr, binds: opts.ContextTimeoutEnabled, asked: time.Now(),
		clock: clock{local: ss.local}, batch: ss.batch, hooks: ss.hooks, life: ss.life, closed: ss.closed,
	}
}

// remove drops a shard.
func (ss *shards) remove(s *shard) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	known := maps.Clone(ss.all())
	delete(known, s.node)
	ss.byNode.Store(&known)
}

// close closes all shards, those to come too, and returns them.
func (ss *shards) close() []*shard {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = true
	return slices.Collect(maps.Values(ss.all()))
}
