package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// year is long enough, in µs, that nothing decays and no window ends during a
// test.
const year = 366 * 24 * 3600 * 1_000_000

// limits are one of each kind, of ten units each.
var limits = map[string][]rule.Limit{
	"token_bucket":   {{Algorithm: rule.TokenBucket, Rate: 1, Period: year, Burst: 10}},
	"gcra":           {{Algorithm: rule.GCRA, Rate: 1, Period: year / 16, Burst: 10}},
	"sliding_window": {{Algorithm: rule.SlidingWindow, Rate: 10, Period: year}},
	"sliding_log":    {{Algorithm: rule.SlidingLog, Rate: 10, Period: year}},
	"fixed_window":   {{Algorithm: rule.FixedWindow, Rate: 10, Period: year}},
	"several": {
		{Algorithm: rule.TokenBucket, Rate: 1, Period: year, Burst: 10},
		{Algorithm: rule.FixedWindow, Rate: 1000, Period: year},
	},
}

// eachKind runs the test for a plan of each kind.
func eachKind(t *testing.T, test func(t *testing.T, plan *scripts.Plan)) {
	for name, limits := range limits {
		t.Run(name, func(t *testing.T) { test(t, scripts.NewPlan(limits...)) })
	}
}

// noLeaks ends the test with an error if goroutines are left that weren't there
// now. It's not for TestMain: the servers that tests share outlive each of them.
// Three kinds don't count: one that waits for a server started meanwhile, one of
// a fake server, and one of the client's that tries a dead node once a second
// and looks only then whether it's closed.
func noLeaks(t testing.TB) {
	now := goleak.IgnoreCurrent()
	servers := goleak.IgnoreAnyFunction("github.com/shardlimit/shardlimit/internal/rediscluster.(*run).wait")
	dials := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	fakes := goleak.IgnoreAnyFunction("github.com/shardlimit/shardlimit/cluster.(*fake).serve")
	t.Cleanup(func() {
		var err error
		for range 5 { // a client that was closed may be dialling still, a node that is gone
			if err = goleak.Find(now, servers, dials, fakes); err == nil {
				return
			}
		}
		t.Error(err)
	})
}

// patient is long enough for whatever is meant to succeed on a busy machine.
const patient = time.Minute

// newTestClient returns a Client of the servers. mutate may be nil.
func newTestClient(t testing.TB, servers *rediscluster.Cluster, mutate func(*redis.ClusterOptions)) *Client {
	t.Helper()
	noLeaks(t)
	return wrap(t, redistest.Client(t, servers, func(o *redis.ClusterOptions) {
		o.ContextTimeoutEnabled = true
		if mutate != nil {
			mutate(o)
		}
	}))
}

func wrap(t testing.TB, rdb redis.UniversalClient) *Client {
	t.Helper()
	c, err := New(rdb, Options{Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var nonces atomic.Uint64

// take returns a call for one unit.
func take(plan *scripts.Plan, key string) *scripts.Call {
	return &scripts.Call{Plan: plan, Key: key, Cost: 1, Count: 1, Nonce: nonces.Add(1)}
}

// tagged returns a key that no other test has, with a hash tag, so that all of
// its windows share a slot.
func tagged(t testing.TB) string {
	return "{" + redistest.Prefix(t) + "}"
}

// allow takes n times one unit and returns how many were granted.
func allow(t testing.TB, c *Client, plan *scripts.Plan, key string, n int) int64 {
	t.Helper()
	var granted int64
	for range n {
		granted += do(t, c, take(plan, key)).Granted
	}
	return granted
}

// do makes a call that must be answered.
func do(t testing.TB, c *Client, call *scripts.Call) scripts.Reply {
	t.Helper()
	reply, err := c.Do(t.Context(), call)
	if err != nil {
		t.Fatalf("Do(%s of %q) = %v, want an answer", call.Script().Name, call.Key, err)
	}
	return reply
}

// used returns how many units are charged.
func used(t testing.TB, c *Client, plan *scripts.Plan, key string) int64 {
	t.Helper()
	reply := do(t, c, &scripts.Call{Plan: plan, Op: scripts.Peek, Key: key})
	limit := plan.Limits()[0]
	return limit.Capacity() - limit.Remaining(reply.State(0), reply.Now)
}

// wantError makes a call that must fail with this class, and returns the error.
func wantError(ctx context.Context, t testing.TB, c *Client, call *scripts.Call, want failover.Class) *failover.Error {
	t.Helper()
	reply, err := c.Do(ctx, call)
	f, ok := errors.AsType[*failover.Error](err)
	if !ok || f.Class != want {
		t.Fatalf("Do(%s of %q) = %v, %v; want an error of class %q", call.Script().Name, call.Key, reply, err, want)
	}
	return f
}

// counter counts the commands that a client's nodes are given, by name.
type counter struct {
	evalsha, eval atomic.Int64
	after         func() // each lot; nil: nothing
}

// count counts what goes to those nodes that rdb finds from now on.
func count(rdb redis.UniversalClient) *counter {
	return afterEach(rdb, nil)
}

// afterEach calls after whenever a node has dealt with what it was given.
func afterEach(rdb redis.UniversalClient, after func()) *counter {
	c := &counter{after: after}
	rdb.(*redis.ClusterClient).OnNewNode(func(node *redis.Client) { node.AddHook(c) })
	return c
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			c.add(cmd)
		}
		err := next(ctx, cmds)
		if c.after != nil && !initial(cmds[0]) {
			c.after()
		}
		return err
	}
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd)
		err := next(ctx, cmd)
		if c.after != nil && !initial(cmd) {
			c.after()
		}
		return err
	}
}

func (c *counter) add(cmd redis.Cmder) {
	switch cmd.Name() {
	case "evalsha":
		c.evalsha.Add(1)
	case "eval":
		c.eval.Add(1)
	}
}

// initial reports whether the client sends cmd for itself.
func initial(cmd redis.Cmder) bool {
	return cmd.Name() != "evalsha" && cmd.Name() != "eval"
}

// owner returns the node that serves the key's slot, and another primary.
func owner(t testing.TB, servers *rediscluster.Cluster, slot int) (from, other *rediscluster.Node) {
	t.Helper()
	from, err := servers.Owner(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	primaries, err := servers.Primaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range primaries {
		if n != from {
			return from, n
		}
	}
	t.Fatal("there is one primary alone")
	return nil, nil
}

// run sends a command to one node, where it must succeed.
func run(t testing.TB, n *rediscluster.Node, args ...any) {
	t.Helper()
	if err := n.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v at %s: %v", fmt.Sprint(args...), n.Addr(), err)
	}
}
