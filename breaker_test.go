package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/keys"
)

// modes returns a policy of each failure mode. Nothing but calls asks Redis for
// them: no lease is asked for.
func modes(limits ...shardlimit.Limit) []*shardlimit.Policy {
	var policies []*shardlimit.Policy
	for _, mode := range []shardlimit.FailureMode{shardlimit.FailOpen(), shardlimit.FailClosed()} {
		policies = append(policies, shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: mode.String(), Limits: limits, OnFailure: mode, Leases: shardlimit.LeaseOff,
		}))
	}
	return policies
}

// subjectsOf returns n subjects whose keys the node serves.
func subjectsOf(t *testing.T, c *rediscluster.Cluster, node *rediscluster.Node, n int) []string {
	t.Helper()
	var found []string
	for _, s := range subjects(100 * n) {
		owner, err := c.Owner(t.Context(), int(keys.Slot(s)))
		if err != nil {
			t.Fatal(err)
		}
		if owner == node {
			found = append(found, s)
		}
		if len(found) == n {
			break
		}
	}
	return found
}

// wantByMode checks that the policy's mode answered, because of cause.
func wantByMode(t *testing.T, p *shardlimit.Policy, r shardlimit.Result, shard string) *shardlimit.UnavailableError {
	t.Helper()
	down, ok := errors.AsType[*shardlimit.UnavailableError](r.Failure)
	byMode := r.Allowed == (p.Name() == "open") || p.Name() == "local" // which may allow
	if !ok || down.Shard != shard || r.Source != shardlimit.FromFallback || !byMode {
		t.Fatalf("fail %s: %+v, want the mode's answer for %s", p.Name(), r, shard)
	}
	return down
}

// wantFromRedis checks that Redis decides for the subjects.
func wantFromRedis(t *testing.T, l *shardlimit.Limiter, policies []*shardlimit.Policy, subjects []string) {
	t.Helper()
	for _, p := range policies {
		for _, s := range subjects {
			if r := allow(t, l, p, s); r.Source != shardlimit.FromRedis {
				t.Errorf("Allow(%s, %s) = %+v, want it from Redis", p.Name(), s, r)
			}
		}
	}
}

// atOnce makes n calls side by side.
func atOnce(n int, call func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(call)
	}
	all.Wait()
}

// oneShard returns a cluster that serves on without one shard, that shard, a
// subject of it, and those of others.
func oneShard(t *testing.T) (c *rediscluster.Cluster, node *rediscluster.Node, its string, others []string) {
	t.Helper()
	c = redistest.Start(t, redistest.Options{Args: []string{"--cluster-require-full-coverage", "no"}})
	nodes := c.Nodes()
	its = subjectsOf(t, c, nodes[0], 1)[0]
	return c, nodes[0], its, append(subjectsOf(t, c, nodes[1], 3), subjectsOf(t, c, nodes[2], 3)...)
}

func stateOf(l *shardlimit.Limiter, shard string) shardlimit.ShardState {
	for _, s := range l.Inspect().Shards {
		if s.Address == shard {
			return s
		}
	}
	return shardlimit.ShardState{}
}

// One shard down: policies differ on that shard's subjects alone, its breaker
// opens, and closes when it is back.
func TestOneShardDown(t *testing.T) {
	c, node, its, others := oneShard(t)
	rec := newRecorder()
	l := newOn(t, redistest.Client(t, c, func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true }), shardlimit.Config{
		Prefix: redistest.Prefix(t), Timeout: time.Second, Observer: rec.observer(),
		Breaker: shardlimit.BreakerConfig{Window: 2 * time.Second},
	})
	policies := append(modes(shardlimit.Per(1000, long)), failsLocal(0.01, shardlimit.Per(1000, long)))
	wantFromRedis(t, l, policies, append(others, its))
	if err := node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	var local atomic.Int64 // admitted by the share
	for _, p := range policies {
		atOnce(20, func() {
			r, err := l.Allow(t.Context(), p, its)
			if err != nil || r.Failure == nil {
				t.Errorf("Allow = %+v, %v; want a failure", r, err)
			}
			if p.Name() == "local" {
				local.Add(r.Granted)
			}
		})
	}
	rec.wait(t, node.Addr(), "opened")
	for _, p := range policies {
		for range 1000 {
			r := allow(t, l, p, its)
			if down := wantByMode(t, p, r, node.Addr()); !errors.Is(down, shardlimit.ErrBreakerOpen) || down.Unknown {
				t.Fatalf("Failure = %v, want that the breaker is open", down)
			}
			if p.Name() == "local" {
				local.Add(r.Granted)
			}
		}
	}
	if n := local.Load(); n != 10 {
		t.Errorf("%d admitted by a hundredth of 1,000, want 10", n)
	}
	if c := l.Inspect().Counters; c.FallbackAllowed != 1020+10 || c.FallbackDenied != 1020+1010 {
		t.Errorf("Counters: %+v, want 1,030 allowed and 2,030 denied by the modes", c)
	}
	if s := stateOf(l, node.Addr()); !s.Open || !s.Fallback || s.Unanswered.Open < 3000 || s.Err == "" {
		t.Errorf("Inspect: %+v, want an open breaker that 3,000 calls met", s)
	}
	wantFromRedis(t, l, policies, others)

	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec.wait(t, node.Addr(), "closed")
	wantFromRedis(t, l, policies, append(others, its))
	rec.wait(t, node.Addr(), "recovered")
	rec.want(t, node.Addr(), "fallback", "opened", "closed", "recovered")
	rec.want(t, "topology")
	for _, n := range c.Nodes()[1:] {
		rec.want(t, n.Addr())
	}
}

// hidden is a server whose replies to decisions and probes can be lost.
type hidden struct {
	server *rediscluster.Single
	proxy  *relay.Proxy
	rdb    *redis.Client
}

func newHidden(t *testing.T) *hidden {
	t.Helper()
	server := redistest.StartSingle(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true}))
	return &hidden{server, proxy, rdb}
}

// lose loses the next n replies to decisions and probes.
func (h *hidden) lose(n int) {
	h.proxy.DropReplies(n, relay.ThenClose, relay.Commands("evalsha", "eval"))
}

// calls returns how often the server ran the command.
func (h *hidden) calls(t *testing.T, command string) (n int64) {
	t.Helper()
	info, err := h.server.Client().InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	stats := info["Commandstats"]["cmdstat_"+command]
	_, _ = fmt.Sscanf(stats, "calls=%d,", &n)
	return n
}

func TestNoCallReachesAShardWhoseBreakerIsOpen(t *testing.T) {
	h := newHidden(t)
	rec := newRecorder()
	l := newOn(t, h.rdb, shardlimit.Config{Timeout: patient, Observer: rec.observer()})
	p := modes(shardlimit.Per(1000, long))[1]
	wantFromRedis(t, l, []*shardlimit.Policy{p}, []string{"s"})

	h.lose(1 << 30)
	for range 20 {
		if down := wantByMode(t, p, allow(t, l, p, "s"), h.proxy.Addr()); !down.Unknown {
			t.Errorf("Failure = %v, want an unknown outcome", down)
		}
	}
	before := h.calls(t, "evalsha")
	for range 1000 {
		if down := wantByMode(t, p, allow(t, l, p, "s"), h.proxy.Addr()); !errors.Is(down, shardlimit.ErrBreakerOpen) {
			t.Fatalf("Failure = %v, want that the breaker is open", down)
		}
	}
	if n := h.calls(t, "evalsha") - before; n != 0 {
		t.Errorf("%d of 1,000 calls reached the server", n)
	}
	h.lose(0)
	rec.wait(t, h.proxy.Addr(), "closed")
	if left := result(t)(l.Peek(t.Context(), p, "s")).Remaining; left != 1000-21 {
		t.Errorf("%d of 1,000 remain, want 979: what was sent was charged once", left)
	}
	want := shardlimit.Counters{Allowed: 1, FallbackDenied: 1020, Unknown: 20}
	if diff := cmp.Diff(want, l.Inspect().Counters); diff != "" {
		t.Errorf("Counters (-want +got):\n%s", diff)
	}
	rec.wait(t, h.proxy.Addr(), "recovered")
	rec.want(t, h.proxy.Addr(), "fallback", "opened", "closed", "recovered")
}

// Out of memory, or without the replicas that it wants: unavailable there, at
// once, so that no breaker is needed.
func TestShardThatRefusesWrites(t *testing.T) {
	c, node, its, others := oneShard(t)
	for _, tt := range []struct{ setting, value, well, code string }{
		{"maxmemory", "1", "0", "OOM"},
		{"min-replicas-to-write", "1", "0", "NOREPLICAS"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			rec := newRecorder()
			l := newOn(t, clientOf(t, c), shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: patient, Observer: rec.observer()})
			policies := modes(shardlimit.Per(1000, long))
			wantFromRedis(t, l, policies, append(others, its))
			configure := func(value string) {
				if err := node.Client().ConfigSet(t.Context(), tt.setting, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			configure(tt.value)
			for range 30 {
				for _, p := range policies {
					if down := wantByMode(t, p, allow(t, l, p, its), node.Addr()); down.Unknown || !strings.Contains(down.Error(), tt.code) {
						t.Errorf("Failure = %v, want %s", down, tt.code)
					}
				}
			}
			wantFromRedis(t, l, policies, others)
			if s := stateOf(l, node.Addr()); s.Open || s.Unanswered != (shardlimit.Unanswered{NeverRan: 60}) {
				t.Errorf("Inspect: %+v, want a closed breaker and 60 calls that never ran", s)
			}
			configure(tt.well)
			wantFromRedis(t, l, policies, append(others, its))
			rec.wait(t, node.Addr(), "recovered")
			rec.want(t, node.Addr(), "fallback", "recovered")
		})
	}
}

func clientOf(t *testing.T, c *rediscluster.Cluster) *redis.ClusterClient {
	t.Helper()
	return redistest.Client(t, c, func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true })
}

// A key of another type, one that holds what no script of ours wrote, so that the
// script fails, and a missing right: errors under every mode.
func TestMisconfigurationIsAnErrorWhateverTheMode(t *testing.T) {
	const asked = 30
	server := redistest.StartSingle(t, redistest.Options{})
	rdb := singleClient(t, server)
	rec := newRecorder()
	l := newOn(t, rdb, shardlimit.Config{Timeout: patient, Observer: rec.observer()})
	policies := append(modes(shardlimit.Per(1000, long)), shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "local", Limits: []shardlimit.Limit{shardlimit.Per(1000, long)}, OnFailure: shardlimit.FailLocal(0.1),
	}))
	wantFromRedis(t, l, policies, []string{"user:42"})

	used := rdb.Keys(t.Context(), "rl:*").Val()
	for _, fault := range []struct {
		code   string
		happen func(key string) error
	}{
		{"WRONGTYPE", func(key string) error {
			return errors.Join(rdb.Del(t.Context(), key).Err(), rdb.RPush(t.Context(), key, "a list").Err())
		}},
		{"ERR", func(key string) error { return rdb.Set(t.Context(), key, "x", 0).Err() }},
		{"NOPERM", func(string) error { return rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-@scripting").Err() }},
	} {
		for _, key := range used {
			if err := fault.happen(key); err != nil {
				t.Fatal(err)
			}
		}
		for range asked {
			for _, p := range policies {
				wantServerError(t, l, p, fault.code)
			}
		}
	}
	if s := stateOf(l, server.Addr()); s.Open || s.Fallback {
		t.Errorf("Inspect: %+v, want a closed breaker and no fallback", s)
	}
	if n := l.Inspect().Counters.Errors; n != 9*asked {
		t.Errorf("%d errors counted, want %d", n, 9*asked)
	}
	if err := l.Close(); err != nil { // so that all was told
		t.Error(err)
	}
	told, _ := rec.of(server.Addr())
	if len(told) != 3 || !strings.Contains(told[0], "WRONGTYPE") || !strings.Contains(told[1], "ERR") || !strings.Contains(told[2], "NOPERM") {
		t.Errorf("told %q, want WRONGTYPE, ERR and NOPERM, once each", told)
	}
}

func TestCallersWhoGiveUpLeaveTheBreakerAlone(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	l := newOn(t, singleClient(t, server), shardlimit.Config{Timeout: patient})
	p := policy(t, shardlimit.Per(1000, long))
	wantFromRedis(t, l, []*shardlimit.Policy{p}, []string{"s"})
	if err := server.Hang(t.Context()); err != nil {
		t.Fatal(err)
	}
	atOnce(50, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if r, err := l.Allow(ctx, p, "s"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Allow = %+v, %v; want %v", r, err, context.DeadlineExceeded)
		}
	})
	if s := stateOf(l, server.Addr()); s.Open || s.Fallback {
		t.Errorf("Inspect: %+v, want a closed breaker and no fallback", s)
	}
	if err := server.Resume(t.Context()); err != nil { // a call may be under way for those who left
		t.Fatal(err)
	}
}

// New works where Redis is away, and the Limiter comes to itself once it's there.
func TestStartsWithoutRedisAndRecovers(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{})
	single := redistest.StartSingle(t, redistest.Options{})
	for _, tt := range []struct {
		name, shard string // as long as nothing is known
		rdb         redis.UniversalClient
		kill, start func(context.Context) error
	}{
		{"cluster", "", clientOf(t, c), ofAll(c, (*rediscluster.Node).Kill), ofAll(c, (*rediscluster.Node).Restart)},
		{"one server", single.Addr(), singleClient(t, single), single.Kill, single.Restart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			rec := newRecorder()
			l := newOn(t, tt.rdb, shardlimit.Config{Prefix: redistest.Prefix(t), Observer: rec.observer()})
			policies := modes(shardlimit.Per(1000, long))
			for _, p := range policies {
				atOnce(20, func() {
					if r, err := l.Allow(t.Context(), p, "s"); err != nil || r.Allowed != (p.Name() == "open") || r.Failure == nil {
						t.Errorf("fail %s, no Redis: %+v, %v; want the mode's answer", p.Name(), r, err)
					}
				})
			}
			for !rec.saw(tt.shard, "opened") {
				atOnce(20, func() { allow(t, l, policies[0], "s") })
			}
			if down := wantByMode(t, policies[0], allow(t, l, policies[0], "s"), tt.shard); !errors.Is(down, shardlimit.ErrBreakerOpen) {
				t.Errorf("Failure = %v, want that the breaker is open", down)
			}
			if err := tt.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			rec.wait(t, tt.shard, "closed")
			for _, p := range policies {
				warm(t, l, p)
			}
		})
	}
}

// ofAll does verb to all nodes.
func ofAll(c *rediscluster.Cluster, verb func(*rediscluster.Node, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			if err := verb(n, ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
