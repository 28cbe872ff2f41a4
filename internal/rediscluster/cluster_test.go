package rediscluster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := redistest.Start(t, redistest.Options{})
	t.Logf("%v: %d nodes stood after %v", c.Version(), len(c.Nodes()), time.Since(began))

	rdb := redistest.Client(t, c, nil)
	perNode := map[string]int{}
	for i := range 100 {
		key := strconv.Itoa(i)
		if err := rdb.Set(t.Context(), key, i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		owner, err := c.Owner(t.Context(), slotOf(t, c, key))
		if err != nil {
			t.Fatal(err)
		}
		perNode[owner.Addr()]++
		// The owner has it: it sends nobody elsewhere.
		if got, err := owner.Client().Get(t.Context(), key).Int(); err != nil || got != i {
			t.Fatalf("%s: GET %s = %d, %v", owner.Addr(), key, got, err)
		}
	}
	if len(perNode) != 3 {
		t.Errorf("the keys are with %v, want three nodes", perNode)
	}
	addNodeAndRebalance(t, c)
}

// addNodeAndRebalance goes on with a cluster that it may change.
func addNodeAndRebalance(t *testing.T, c *rediscluster.Cluster) {
	t.Helper()
	began := time.Now()
	n, err := c.AddNode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a node was added in %v", time.Since(began))
	if got := slotCount(t, n); got != 0 {
		t.Errorf("the new node serves %d slots, want none", got)
	}

	began = time.Now()
	if err := c.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the slots were rebalanced in %v", time.Since(began))
	for _, n := range c.Nodes() {
		if got := slotCount(t, n); got != rediscluster.Slots/4 {
			t.Errorf("%s serves %d slots, want a quarter", n.Addr(), got)
		}
	}
}

func TestFlushScriptsLosesThemWhereAsked(t *testing.T) {
	c := redistest.Shared(t)
	nodes := primaries(t, c)
	script := "return '" + redistest.Prefix(t) + "'"
	var sha string
	for _, n := range nodes {
		var err error
		if sha, err = n.Client().ScriptLoad(t.Context(), script).Result(); err != nil {
			t.Fatal(err)
		}
	}
	lost := func() (count int) {
		for _, n := range nodes {
			if redis.HasErrorPrefix(n.Client().EvalSha(t.Context(), sha, nil).Err(), "NOSCRIPT") {
				count++
			}
		}
		return count
	}

	before := redistest.Errors(t, c)
	if err := c.FlushScripts(t.Context(), nodes[0]); err != nil {
		t.Fatal(err)
	}
	if got := lost(); got != 1 {
		t.Errorf("%d nodes lost the script, want the one that was flushed", got)
	}
	if err := c.FlushScripts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lost(); got != len(nodes) {
		t.Errorf("%d nodes lost the script, want all %d", got, len(nodes))
	}
	if got := redistest.Errors(t, c).Since(before)["NOSCRIPT"]; c.Version().AtLeast(6, 2) && got != int64(1+len(nodes)) {
		t.Errorf("%d NOSCRIPT were counted, want %d", got, 1+len(nodes))
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	redistest.StartSingle(t, redistest.Options{}) // skips where there is no server
	ignore := goleak.IgnoreCurrent()
	t.Setenv("TMPDIR", t.TempDir())
	s, err := rediscluster.StartSingle(t.Context(), redistest.FromEnvironment(t, redistest.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	set(t, s.Client(), "a", "1")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	goleak.VerifyNone(t, ignore)
}

func TestStartSaysWhyItCannot(t *testing.T) {
	t.Run("no server installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := rediscluster.Start(t.Context(), rediscluster.Options{}); !errors.Is(err, rediscluster.ErrNoServer) {
			t.Errorf("Start = %v, want ErrNoServer", err)
		}
	})
	t.Run("no such server", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "redis-server")
		_, err := rediscluster.Start(t.Context(), rediscluster.Options{Server: missing})
		if !errors.Is(err, os.ErrNotExist) || errors.Is(err, rediscluster.ErrNoServer) {
			t.Errorf("Start = %v, want ErrNotExist", err)
		}
	})
	t.Run("unknown flag", func(t *testing.T) {
		redistest.StartSingle(t, redistest.Options{}) // skips where there is no server
		opts := redistest.FromEnvironment(t, redistest.Options{Args: []string{"--no-such-flag", "1"}})
		_, err := rediscluster.Start(t.Context(), opts)
		if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
			t.Errorf("Start = %v, want what the server wrote", err)
		}
	})
}

// load calls work in four goroutines until stop, which waits for them.
func load(t *testing.T, work func(ctx context.Context, worker int) error) (stop func()) {
	t.Helper()
	ctx := t.Context()
	done := make(chan struct{})
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := work(ctx, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		close(done)
		workers.Wait()
	}
}

// waitFor returns once ready says so. It gives up when the test has failed
// meanwhile, or go test's own timeout is over.
func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ready() {
		if <-tick.C; t.Failed() {
			t.FailNow()
		}
	}
}

func set(t *testing.T, rdb *redis.Client, key, value string) {
	t.Helper()
	if err := rdb.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func slotOf(t *testing.T, c *rediscluster.Cluster, key string) int {
	t.Helper()
	slot, err := c.Nodes()[0].Client().ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(slot)
}

func primaries(t *testing.T, c *rediscluster.Cluster) []*rediscluster.Node {
	t.Helper()
	nodes, err := c.Primaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}
