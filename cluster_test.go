package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/keys"
)

// newLimiter returns a limiter on the cluster, with keys of the test's own.
func newLimiter(t *testing.T, c *rediscluster.Cluster) *shardlimit.Limiter {
	t.Helper()
	return clustered(t, redistest.Client(t, c, nil))
}

// exactPolicies returns a policy of each algorithm, and one of two limits, that
// each admit exactly n units in this test.
func exactPolicies(n int64) []*shardlimit.Policy {
	var policies []*shardlimit.Policy
	for _, a := range algorithms {
		policies = append(policies, shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name:   a.String(),
			Limits: []shardlimit.Limit{shardlimit.Per(n, long).WithAlgorithm(a)},
		}))
	}
	return append(policies, shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "two",
		Limits: []shardlimit.Limit{
			shardlimit.Per(n, long),
			shardlimit.Per(2*n, long).WithAlgorithm(shardlimit.FixedWindow),
		},
	}))
}

// pair is one policy and subject, and what happened to it.
type pair struct {
	policy   *shardlimit.Policy
	subject  string
	due      atomic.Int64 // more often than that it is asked
	asked    atomic.Int64
	admitted atomic.Int64
}

// load asks every pair in turn, from many goroutines, until what goes on
// meanwhile is over and each pair has been asked since, and more often than its
// limit. Then each pair must have been admitted exactly limit times, without an
// error: over 0, under 0.
func load(t *testing.T, l *shardlimit.Limiter, policies []*shardlimit.Policy, subjects []string, limit int64, meanwhile func(ctx context.Context) error) {
	t.Helper()
	var pairs []*pair
	for _, s := range subjects {
		for _, p := range policies {
			pair := &pair{policy: p, subject: s}
			pair.due.Store(limit)
			pairs = append(pairs, pair)
		}
	}
	over := make(chan error, 1)
	go func() { over <- meanwhile(t.Context()) }()

	var next, failed atomic.Int64
	var done atomic.Bool
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for idle := 0; idle < len(pairs) || !done.Load(); {
				p := pairs[next.Add(1)%int64(len(pairs))]
				if done.Load() && p.asked.Load() > p.due.Load() {
					idle++
					continue
				}
				idle = 0
				if !p.ask(t, l) && failed.Add(1) > 10 {
					return
				}
			}
		})
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	for _, p := range pairs { // each once more, to meet what has changed
		p.due.Store(max(limit, p.asked.Load()))
	}
	done.Store(true)
	workers.Wait()

	var asked int64
	for _, p := range pairs {
		asked += p.asked.Load()
		if got := p.admitted.Load(); got != limit {
			t.Errorf("%s, %q: %d of %d admitted, want %d", p.policy.Name(), p.subject, got, p.asked.Load(), limit)
		}
	}
	t.Logf("%d pairs, %d decisions, %d errors", len(pairs), asked, failed.Load())
}

// ask makes one decision and reports whether Redis made it, or this process by
// what Redis had said.
func (p *pair) ask(t *testing.T, l *shardlimit.Limiter) bool {
	r, err := l.Allow(t.Context(), p.policy, p.subject)
	p.asked.Add(1)
	if err != nil || r.Failure != nil {
		t.Errorf("Allow(%s, %q) = %+v, %v; want a decision by Redis", p.policy.Name(), p.subject, r, err)
		return false
	}
	p.admitted.Add(r.Granted)
	return true
}

// subjectsIn returns n subjects whose keys are in the slot.
func subjectsIn(slot uint16, n int) []string {
	var subjects []string
	for i := 0; len(subjects) < n; i++ {
		if s := "user:" + strconv.Itoa(i); keys.Slot(s) == slot {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

func subjects(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "user:" + strconv.Itoa(i)
	}
	return all
}

// otherPrimary returns a primary that does not serve the slot.
func otherPrimary(ctx context.Context, c *rediscluster.Cluster, slot int) (*rediscluster.Node, error) {
	owner, err := c.Owner(ctx, slot)
	if err != nil {
		return nil, err
	}
	primaries, err := c.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range primaries {
		if p != owner {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no primary but the owner of slot %d", slot)
}

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

// 64 goroutines x 4 processes, one key, limit 1,000: exactly 1,000.
func TestExactAcrossProcesses(t *testing.T) {
	c := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			const processes, limit = 4, 1000
			counts := make(chan int64, processes)
			for range processes {
				go func() { counts <- runProcess(t, c.Addrs(), prefix, a) }()
			}
			var admitted int64
			for range processes {
				admitted += <-counts
			}
			if admitted != limit {
				t.Errorf("%d admitted, want exactly %d", admitted, limit)
			}
		})
	}
}

// runProcess runs this test's binary again as one more instance of a service,
// and returns how many units it was admitted.
func runProcess(t *testing.T, addrs []string, prefix string, a shardlimit.Algorithm) int64 {
	limit := shardlimit.Per(1000, long).WithAlgorithm(a)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInstance$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), "SHARDLIMIT_INSTANCE="+strings.Join([]string{strings.Join(addrs, ","), prefix, limit.String()}, "|"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("instance: %v\n%s", err, out)
		return 0
	}
	_, rest, _ := strings.Cut(string(out), "admitted=")
	text, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Errorf("instance: no count in\n%s", out)
	}
	return n
}

// TestInstance is one instance of the service that TestExactAcrossProcesses
// runs four of; by itself it has nothing to do.
func TestInstance(t *testing.T) {
	env := os.Getenv("SHARDLIMIT_INSTANCE")
	if env == "" {
		return
	}
	fields := strings.Split(env, "|")
	limit, err := shardlimit.ParseLimit(fields[2])
	if err != nil {
		t.Fatal(err)
	}
	rdb := closing.AtEnd(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(fields[0], ",")}))
	p := &pair{
		policy:  shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "shared", Limits: []shardlimit.Limit{limit}}),
		subject: limit.Algorithm.String(),
	}
	l := newOn(t, rdb, shardlimit.Config{Prefix: fields[1], Timeout: patient})
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for range 8 {
				p.ask(t, l)
			}
		})
	}
	workers.Wait()
	fmt.Printf("\nadmitted=%d\n", p.admitted.Load())
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

// A client of RESP2, of RESP3; a user with the minimal ACL of the docs; TLS.
func TestClients(t *testing.T) {
	const limit = 5
	check := func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		load(t, clustered(t, rdb), exactPolicies(limit), subjects(30), limit,
			func(context.Context) error { return nil })
	}
	t.Run("RESP2", func(t *testing.T) {
		check(t, redistest.Client(t, redistest.Shared(t), func(o *redis.ClusterOptions) { o.Protocol = 2 }))
	})
	t.Run("RESP3", func(t *testing.T) {
		check(t, redistest.Client(t, redistest.Shared(t), func(o *redis.ClusterOptions) { o.Protocol = 3 }))
	})
	t.Run("minimal ACL", func(t *testing.T) {
		c := redistest.Start(t, redistest.Options{Args: append([]string{"--user", "limiter", "on", ">secret"}, strings.Fields(minimalACL(t))...)})
		check(t, redistest.Client(t, c, func(o *redis.ClusterOptions) { o.Username, o.Password = "limiter", "secret" }))
	})
	t.Run("TLS", func(t *testing.T) {
		check(t, redistest.Client(t, redistest.Start(t, redistest.TLS(t, redistest.Options{})), nil))
	})
	t.Run("one server", func(t *testing.T) {
		s := redistest.StartSingle(t, redistest.Options{})
		rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: s.Addr()}))
		check(t, rdb)
	})
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

// minimalACL is the rule that the README gives a limiter's user, for any prefix.
func minimalACL(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(readme)) {
		if rest, ok := strings.CutPrefix(line, "~rl:*"); ok {
			return "~*" + rest
		}
	}
	t.Fatal("README.md gives no ACL rule")
	return ""
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

// Options that a client of the user's own may have change nothing.
func TestClientsOfEveryMind(t *testing.T) {
	const limit = 5
	for name, mutate := range map[string]func(*redis.ClusterOptions){
		"retries":               func(o *redis.ClusterOptions) { o.MaxRetries = 3 },
		"reads from replicas":   func(o *redis.ClusterOptions) { o.ReadOnly = true },
		"routes at random":      func(o *redis.ClusterOptions) { o.RouteRandomly = true },
		"routes by latency":     func(o *redis.ClusterOptions) { o.RouteByLatency = true },
		"one connection a node": func(o *redis.ClusterOptions) { o.PoolSize = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			load(t, clustered(t, redistest.Client(t, redistest.Shared(t), mutate)), exactPolicies(limit), subjects(30), limit,
				func(context.Context) error { return nil })
		})
	}
}
