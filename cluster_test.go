package shardlimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/keys"
)

// A slot migrated key by key over 5 s while its keys are called: no error, over
// 0, under 0.
func TestSlotMovesKeyByKeyUnderLoad(t *testing.T) {
	c := redistest.Shared(t)
	const slot, limit = 4242, 300
	before := redistest.Errors(t, c)
	load(t, newLimiter(t, c), exactPolicies(limit), subjectsIn(slot, 20), limit, func(ctx context.Context) error {
		to, err := otherPrimary(ctx, c, slot)
		if err != nil {
			return err
		}
		return c.MoveSlot(ctx, slot, to, 5*time.Second)
	})
	met := redistest.Errors(t, c).Since(before)
	t.Logf("redirects met: %v", met)
	if met["ASK"] == 0 || met["MOVED"] == 0 {
		t.Errorf("redirects met: %v; want ASK and MOVED, or the slot moved unseen", met)
	}
	if met["TRYAGAIN"] != 0 {
		t.Errorf("%d TRYAGAIN: a decision touches more than one key", met["TRYAGAIN"])
	}
}

// A reshard of a third of the slots under load: the same.
func TestReshardOfAThirdUnderLoad(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{})
	const limit = 100
	before := redistest.Errors(t, c)
	load(t, newLimiter(t, c), exactPolicies(limit), subjects(200), limit, func(ctx context.Context) error {
		primaries, err := c.Primaries(ctx)
		if err != nil {
			return err
		}
		if err := c.Reshard(ctx, primaries[0], primaries[2], keys.Slots/6); err != nil {
			return err
		}
		return c.Reshard(ctx, primaries[1], primaries[2], keys.Slots/6)
	})
	met := redistest.Errors(t, c).Since(before)
	t.Logf("redirects met: %v", met)
	if met["MOVED"] == 0 {
		t.Errorf("redirects met: %v; want MOVED", met)
	}
}

// A new shard added and rebalanced under load: the same.
func TestNewShardUnderLoad(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{})
	const limit = 100
	load(t, newLimiter(t, c), exactPolicies(limit), subjects(200), limit, func(ctx context.Context) error {
		if _, err := c.AddNode(ctx); err != nil {
			return err
		}
		return c.Rebalance(ctx)
	})
}

// SCRIPT FLUSH on one or all nodes under load: no error, each call charged once.
func TestScriptFlushUnderLoad(t *testing.T) {
	c := redistest.Shared(t)
	const limit = 200
	before := redistest.Errors(t, c)
	load(t, newLimiter(t, c), exactPolicies(limit), subjects(60), limit, func(ctx context.Context) error {
		for i := range 20 {
			nodes := c.Nodes()
			if i%2 == 0 {
				nodes = nodes[i/2%len(nodes):][:1]
			}
			if err := c.FlushScripts(ctx, nodes...); err != nil {
				return err
			}
		}
		return nil
	})
	if met := redistest.Errors(t, c).Since(before); met["NOSCRIPT"] == 0 {
		t.Errorf("errors met: %v; want NOSCRIPT", met)
	}
}

// 1,000 users, fixed_window, three shards: all served right.
func TestThousandUsersOfAFixedWindow(t *testing.T) {
	const limit = 3
	fixed := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name:   "fixed",
		Limits: []shardlimit.Limit{shardlimit.Per(limit, long).WithAlgorithm(shardlimit.FixedWindow)},
	})
	load(t, newLimiter(t, redistest.Shared(t)), []*shardlimit.Policy{fixed}, subjects(1000), limit,
		func(context.Context) error { return nil })
}

// Subjects of any bytes have counters of their own, and none moves the tag.
func TestOddSubjects(t *testing.T) {
	l := newLimiter(t, redistest.Shared(t))
	once := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "once", Limits: []shardlimit.Limit{shardlimit.Per(1, long)}})
	odd := []string{
		"}", "}x", "{a}", "a}b", "{}", "%7B", "{", "\x00", "a", "%", "%00", "a b", "\r\n", "%h", "é", "日本", "\xff\xfe", "\xff",
		strings.Repeat("k", 1<<10), strings.Repeat("k", 1<<10+1), strings.Repeat("K", 100<<10),
	}
	for _, allowed := range []bool{true, false} {
		for _, s := range odd {
			r, err := l.Allow(t.Context(), once, s)
			if err != nil || r.Allowed != allowed {
				t.Errorf("Allow(%.20q) = %v, %v; want %v", s, r.Allowed, err, allowed)
			}
		}
	}
	if _, err := l.Allow(t.Context(), once, ""); err == nil {
		t.Error("Allow of the empty subject: no error")
	}
}

// keys.Slot against CLUSTER KEYSLOT, 10,000 odd keys: equal.
func TestSlotAgreesWithServer(t *testing.T) {
	c := redistest.Shared(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	odd := make([]string, 10_000)
	alphabet := "{}{}{}ab%:\x00\xff\r\n é"
	for i := range odd {
		b := make([]byte, rng.IntN(40))
		for j := range b {
			b[j] = alphabet[rng.IntN(len(alphabet))]
		}
		odd[i] = string(b)
	}
	node := c.Nodes()[0].Client()
	pipe := node.Pipeline()
	slots := make([]*redis.IntCmd, len(odd))
	for i, k := range odd {
		slots[i] = pipe.ClusterKeySlot(t.Context(), k)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, k := range odd {
		if got, want := keys.Slot(k), slots[i].Val(); int64(got) != want {
			t.Errorf("Slot(%q) = %d, CLUSTER KEYSLOT says %d", k, got, want)
		}
	}
}

// A policy changed to another algorithm or period, both versions in use at
// once: no WRONGTYPE, no error, each version its own state.
func TestShapesSideBySide(t *testing.T) {
	l := newLimiter(t, redistest.Shared(t))
	for _, version := range append(exactPolicies(3), shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "other", Limits: []shardlimit.Limit{shardlimit.Per(3, long-24*time.Hour)},
	})) {
		renamed := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "api", Limits: version.Limits()})
		for i := range 4 {
			r, err := l.Allow(t.Context(), renamed, "s")
			if err != nil || r.Allowed != (i < 3) {
				t.Errorf("%s: call %d: allowed %v, %v; want %v", version.Name(), i, r.Allowed, err, i < 3)
			}
		}
	}
}

// A reply dropped after the script ran, 1,000 calls: each is reported as
// unknown and answered by the policy's mode, and charged once at most.
func TestLostReplies(t *testing.T) {
	const calls = 1000
	c := redistest.Shared(t)
	proxies := redistest.NewProxies(t, c)
	l := newOn(t, redistest.Client(t, c, func(o *redis.ClusterOptions) { o.Dialer = proxies.Dial }), shardlimit.Config{
		Prefix: redistest.Prefix(t), Timeout: patient, Breaker: shardlimit.BreakerConfig{Disabled: true},
	})
	limits := []shardlimit.Limit{shardlimit.Per(10*calls, long)}
	for _, p := range []*shardlimit.Policy{
		shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "open", Limits: limits, Leases: shardlimit.LeaseOff}),
		shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "closed", Limits: limits, Leases: shardlimit.LeaseOff, OnFailure: shardlimit.FailClosed(),
		}),
	} {
		t.Run(p.Name(), func(t *testing.T) {
			if _, err := l.Allow(t.Context(), p, "s"); err != nil { // the script is known from now on
				t.Fatal(err)
			}
			owner, err := c.Owner(t.Context(), int(keys.Slot("s")))
			if err != nil {
				t.Fatal(err)
			}
			proxy := proxies[owner.Addr()]
			already := proxy.Dropped()
			proxy.DropReplies(calls, relay.ThenClose, relay.Commands("evalsha", "eval"))
			for range calls {
				r, err := l.Allow(t.Context(), p, "s")
				down, ok := errors.AsType[*shardlimit.UnavailableError](r.Failure)
				if err != nil || !ok || !down.Unknown || r.Source != shardlimit.FromFallback || r.Allowed != (p.Name() == "open") {
					t.Fatalf("Allow = %+v, %v; want the mode's answer, outcome unknown", r, err)
				}
			}
			if got := proxy.Dropped() - already; got != calls {
				t.Errorf("%d replies dropped, want %d", got, calls)
			}
			left, err := l.Peek(t.Context(), p, "s")
			if used := 10*calls - left.Remaining; err != nil || used != calls+1 {
				t.Errorf("%d units charged, %v; want %d: one a call", used, err, calls+1)
			}
		})
	}
}

// Redis not up at start: New works, degraded, and recovers by itself.
func TestClusterNotUpAtStart(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{})
	for _, n := range c.Nodes() {
		if err := n.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l := newOn(t, redistest.Client(t, c, nil), shardlimit.Config{Prefix: redistest.Prefix(t)})
	limits := []shardlimit.Limit{shardlimit.PerMinute(100)}
	open := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "open", Limits: limits})
	closed := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "closed", Limits: limits, OnFailure: shardlimit.FailClosed()})
	for _, p := range []*shardlimit.Policy{open, closed} {
		r, err := l.Allow(t.Context(), p, "s")
		if err != nil || r.Source != shardlimit.FromFallback || r.Failure == nil || r.Allowed != (p == open) {
			t.Errorf("%s, no Redis: %+v, %v; want the mode's answer with its Failure", p.Name(), r, err)
		}
	}
	for _, n := range c.Nodes() {
		if err := n.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		r, err := l.Allow(t.Context(), closed, "s")
		if err != nil {
			t.Fatal(err)
		}
		if r.Source == shardlimit.FromRedis {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a minute after Redis came: %+v", r)
		}
	}
}

// A replica promoted by CLUSTER FAILOVER, which waits for it to have all that
// its primary wrote: no error, over 0, under 0.
func TestManualFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{Replicas: 1})
	const limit = 200
	load(t, newLimiter(t, c), exactPolicies(limit), subjects(60), limit, func(ctx context.Context) error {
		primaries, err := c.Primaries(ctx)
		if err != nil {
			return err
		}
		for _, n := range c.Nodes() {
			if slices.Contains(primaries, n) {
				continue
			}
			if err := n.Client().ClusterFailover(ctx).Err(); err != nil {
				return err
			}
			for promoted := false; !promoted; {
				now, err := c.Primaries(ctx)
				if err != nil {
					return err
				}
				promoted = slices.Contains(now, n)
			}
		}
		return nil
	})
}
