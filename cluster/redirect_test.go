package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/closing"
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

// stubborn is a hook of the nodes' clients. Once it is set the client goes on
// believing what it knows of who serves what: by itself it asks anew in the
// background, so that whether it meets a MOVED is a matter of luck.
type stubborn struct {
	redis.Hook
	set atomic.Bool
}

func (s *stubborn) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *stubborn) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *stubborn) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.set.Load() && cmd.Name() == "cluster" {
			return errors.New("knows better")
		}
		return next(ctx, cmd)
	}
}

func (s *stubborn) newClient(o *redis.Options) *redis.Client {
	rdb := redis.NewClient(o)
	rdb.AddHook(s)
	return rdb
}

func TestDoFollowsASlotThatMoves(t *testing.T) {
	servers := redistest.Shared(t)
	as := asLimiter(t, servers)
	for name, redirects := range map[string]int{"client follows": 3, "client follows none": -1} {
		t.Run(name, func(t *testing.T) {
			knows := &stubborn{}
			followASlot(t, servers, knows, newTestClient(t, servers, func(o *redis.ClusterOptions) {
				as(o)
				o.MaxRedirects, o.NewClient = redirects, knows.newClient
			}))
		})
	}
}

func followASlot(t *testing.T, servers *rediscluster.Cluster, knows *stubborn, c *Client) {
	t.Helper()
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		tag := fmt.Sprintf("rl:{%s}", redistest.Prefix(t))
		before := redistest.Errors(t, servers)
		old, fresh := tag+":old", tag+":new"
		granted := allow(t, c, plan, old, 4)
		knows.set.Store(true)

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
	prefix := redistest.Prefix(t)
	const callers = 64
	var calls, failed, wrong atomic.Int64
	stop := make(chan struct{})
	var calling sync.WaitGroup
	for caller := range callers {
		calling.Go(func() {
			for i := 0; !isClosed(stop); i++ {
				key := fmt.Sprintf("%s-%d-%d", prefix, caller, i)
				var granted int64
				for range 11 {
					reply, err := c.Do(t.Context(), take(tenUnits, key))
					if err != nil {
						failed.Add(1)
					}
					granted += reply.Granted
					calls.Add(1)
				}
				if granted != 10 {
					wrong.Add(1)
				}
			}
		})
	}
	primaries, err := servers.Primaries(t.Context())
	if err == nil {
		err = servers.Reshard(t.Context(), primaries[0], primaries[1], 1500)
	}
	close(stop)
	calling.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls", calls.Load())
	if failed.Load() != 0 || wrong.Load() != 0 {
		t.Errorf("%d calls failed, %d keys didn't grant 10 units; want neither", failed.Load(), wrong.Load())
	}
	if err := servers.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// tenUnits is a plan of ten units.
var tenUnits = scripts.NewPlan(limits["token_bucket"]...)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestARedirectIsPutDownToTheNodeThatAnswered(t *testing.T) {
	const ahead = 50 * hour
	var first, second *fake
	now := func(by int64) float64 { return float64(time.Now().UnixMicro() + by) }
	second = newFakeOf(t, func(_ int64, command []string) string {
		if command[3] == "list" {
			return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
		}
		return doubles(1, now(ahead), 1)
	})
	first = newFakeOf(t, func(int64, []string) string { return fmt.Sprintf("-MOVED 1 %s\r\n", second.addr()) })
	second.owner = first.addr()
	c := first.client(t, Options{Timeout: patient})
	for range 2 { // not known at first
		if f := wantError(t.Context(), t, c, take(many, "list"), failover.Configuration); f.Shard != second.addr() {
			t.Errorf("Do = %v, want an error that names %s", f, second.addr())
		}
	}
	do(t, c, take(hourly, "{key}"))
	if got := c.shards.at(first.addr()).clock.ahead.Load(); got != 0 {
		t.Errorf("the clock of the node asked first was learnt from the other's: %d µs ahead", got)
	}
	if got := c.shards.at(second.addr()).clock.ahead.Load(); got < ahead-hour {
		t.Errorf("the clock of the node that answered is taken as %d µs ahead, want about %d", got, int64(ahead))
	}
	do(t, c, take(hourly, "{key}"))
}

func TestTargetOfARedirect(t *testing.T) {
	tests := []struct{ redirect, from, want string }{
		{"MOVED 3999 127.0.0.1:6381", "10.0.0.1:6379", "127.0.0.1:6381"},
		{"ASK 3999 redis-2.example:6381", "10.0.0.1:6379", "redis-2.example:6381"},
		{"MOVED 3999 :6381", "10.0.0.1:6379", "10.0.0.1:6381"},
		{"MOVED 3999 fd00::1:6381", "10.0.0.1:6379", "[fd00::1]:6381"},
		{"MOVED 3999 :6381", "[fd00::1]:6379", "[fd00::1]:6381"},
	}
	for _, tt := range tests {
		if got := target(tt.redirect, tt.from); got != tt.want {
			t.Errorf("target(%q, %q) = %q, want %q", tt.redirect, tt.from, got, tt.want)
		}
	}
}

func TestShardsThatAreGoneAreForgotten(t *testing.T) {
	noLeaks(t)
	ss := &shards{life: t.Context(), local: newOrigin().now}
	node := func(addr string) *redis.Client {
		return closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: addr}))
	}
	old, busy := ss.of(node("a:1")), ss.of(node("b:1"))
	for _, s := range []*shard{old, busy} {
		s.asked = s.asked.Add(-2 * forget)
	}
	busy.running = 1
	fresh := ss.of(node("c:1"))
	if ss.at("a:1") != nil || ss.at("b:1") != busy || ss.at("c:1") != fresh {
		t.Error("want the shard forgotten that nobody used, and no other")
	}
	if again := ss.of(node("c:1")); ss.at("c:1") != again || len(ss.all()) != 2 {
		t.Error("want a node at the same address to take the place of the old one")
	}
}
