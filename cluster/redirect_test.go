package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

func TestDoLoadsAScriptThatTheServerForgot(t *testing.T) {
	servers := redistest.Shared(t)
	c := newTestClient(t, servers, nil)
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		key := tagged(t)
		allow(t, c, plan, key, 2)
		one, _ := owner(t, servers, int(keys.Slot(key)))
		for _, nodes := range [][]*rediscluster.Node{{one}, nil} { // nil: all of them
			if err := servers.FlushScripts(t.Context(), nodes...); err != nil {
				t.Fatal(err)
			}
			allow(t, c, plan, key, 2)
		}
		if got := used(t, c, plan, key); got != 6 {
			t.Errorf("6 calls, scripts flushed twice: %d units used, want 6", got)
		}
	})
}

func TestScriptsFlushedUnderLoadLoseNothing(t *testing.T) {
	servers := redistest.Shared(t)
	c := newTestClient(t, servers, nil)
	plan := scripts.NewPlan(limits["token_bucket"]...)
	prefix := redistest.Prefix(t)

	const callers = 4
	var calling sync.WaitGroup
	var failed atomic.Int64
	for i := range callers {
		calling.Go(func() {
			for k := range 100 { // ten units of each key
				for range 10 {
					if reply, err := c.Do(t.Context(), take(plan, fmt.Sprintf("%s-%d-%d", prefix, i, k))); err != nil || reply.Granted != 1 {
						failed.Add(1)
					}
				}
			}
		})
	}
	called := make(chan struct{})
	go func() { calling.Wait(); close(called) }()
	for flushes := 0; ; flushes++ {
		if err := servers.FlushScripts(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-called:
			t.Logf("%d flushes", flushes)
			if n := failed.Load(); n != 0 {
				t.Errorf("%d calls were refused or charged twice", n)
			}
			return
		default:
		}
	}
}

// holdHalfMoved begins to move a slot and leaves it so. The returned function
// finishes it.
func holdHalfMoved(t *testing.T, servers *rediscluster.Cluster, slot int) (finish func()) {
	t.Helper()
	from, to := owner(t, servers, slot)
	run(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID())
	run(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID())
	return func() {
		if err := servers.MoveSlot(t.Context(), slot, to, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDoFollowsASlotThatMoves(t *testing.T) {
	servers := redistest.Shared(t)
	c := newTestClient(t, servers, asLimiter(t, servers))
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		tag := fmt.Sprintf("rl:{%s}", redistest.Prefix(t))
		before := redistest.Errors(t, servers)
		old, fresh := tag+":old", tag+":new"
		granted := allow(t, c, plan, old, 4)

		finish := holdHalfMoved(t, servers, int(keys.Slot(tag)))
		granted += allow(t, c, plan, old, 2) // still at the source
		allowed := allow(t, c, plan, fresh, 6)
		if errs := redistest.Errors(t, servers).Since(before); errs["ASK"] == 0 || errs["TRYAGAIN"] != 0 {
			t.Errorf("servers replied %v, want ASK and no TRYAGAIN", errs)
		}
		finish()
		granted += allow(t, c, plan, old, 6)
		allowed += allow(t, c, plan, fresh, 6)
		if errs := redistest.Errors(t, servers).Since(before); errs["MOVED"] == 0 {
			t.Errorf("servers replied %v, want MOVED", errs)
		}

		if granted != 10 || allowed != 10 {
			t.Errorf("12 calls each on 10 units: %d and %d granted, want 10", granted, allowed)
		}
	})
}

func TestDoFollowsAReshardUnderLoad(t *testing.T) {
	servers := redistest.Shared(t)
	c := newTestClient(t, servers, nil)
	plan := scripts.NewPlan(limits["token_bucket"]...)
	prefix := redistest.Prefix(t)

	var granted, failed atomic.Int64
	stop := make(chan struct{})
	var calling sync.WaitGroup
	calling.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			key := fmt.Sprintf("%s-%d", prefix, i)
			for range 11 {
				reply, err := c.Do(t.Context(), take(plan, key))
				if err != nil {
					failed.Add(1)
				}
				granted.Add(reply.Granted)
			}
			granted.Add(-10)
		}
	})
	primaries, err := servers.Primaries(t.Context())
	if err == nil {
		err = servers.Reshard(t.Context(), primaries[0], primaries[1], 1500)
	}
	close(stop)
	calling.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if failed.Load() != 0 || granted.Load() != 0 {
		t.Errorf("%d calls failed, %d units granted beyond 10 a key; want neither", failed.Load(), granted.Load())
	}
	if err := servers.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
}
