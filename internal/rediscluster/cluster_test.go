package rediscluster_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

func TestMoveSlotTakesKeysAlongWhileTheyAreWritten(t *testing.T) {
	c := redistest.Shared(t)
	rdb := redistest.Client(t, c, nil)
	tag := "{" + redistest.Prefix(t) + "}"
	slot := slotOf(t, c, tag)
	from, to := twoPrimaries(t, c, slot)
	before := redistest.Errors(t, c)

	var writes atomic.Int64
	stop := load(t, func(ctx context.Context, worker int) error {
		key := tag + strconv.FormatInt(writes.Add(1)%50, 10) + "." + strconv.Itoa(worker)
		return rdb.Incr(ctx, key).Err()
	})
	waitFor(t, func() bool { return writes.Load() > 100 })
	err := c.MoveSlot(t.Context(), slot, to, 300*time.Millisecond)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if owner, err := c.Owner(t.Context(), slot); err != nil || owner != to {
		t.Errorf("Owner = %v, %v; want the target", owner, err)
	}
	if n, err := from.Client().ClusterCountKeysInSlot(t.Context(), slot).Result(); err != nil || n != 0 {
		t.Errorf("the source still has %d keys (%v)", n, err)
	}
	if got := sumOf(t, to, slot); got != writes.Load() {
		t.Errorf("the keys add up to %d, want all %d writes", got, writes.Load())
	}
	if seen := redistest.Errors(t, c).Since(before); c.Version().AtLeast(6, 2) && seen["ASK"] == 0 {
		t.Errorf("nobody was sent ASK: %v", seen)
	}
}

func TestMoveSlotFinishesWhatACallBeforeLeftHalfDone(t *testing.T) {
	c := redistest.Shared(t)
	rdb := redistest.Client(t, c, nil)
	tag := "{" + redistest.Prefix(t) + "}"
	slot := slotOf(t, c, tag)
	from, to := twoPrimaries(t, c, slot)
	if err := rdb.Set(t.Context(), tag+"old", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	moved := make(chan error, 1)
	go func() { moved <- c.MoveSlot(ctx, slot, to, time.Hour) }()
	// Half moved, the source knows nothing of keys that it doesn't have.
	waitFor(t, func() bool {
		err := from.Client().Get(t.Context(), tag+"new").Err()
		return err != nil && strings.HasPrefix(err.Error(), "ASK ")
	})
	cancel()
	if err := <-moved; !errors.Is(err, context.Canceled) {
		t.Fatalf("MoveSlot = %v, want it cancelled", err)
	}
	if owner, err := c.Owner(t.Context(), slot); err != nil || owner != from {
		t.Fatalf("Owner = %v, %v; want the source still", owner, err)
	}

	if err := c.MoveSlot(t.Context(), slot, to, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := to.Client().Get(t.Context(), tag+"old").Int(); err != nil || got != 1 {
		t.Errorf("GET at the target = %d, %v", got, err)
	}
}

func TestReshardMovesSoManySlots(t *testing.T) {
	c := redistest.Shared(t)
	rdb := redistest.Client(t, c, nil)
	prefix := redistest.Prefix(t)
	primaries := primaries(t, c)
	from, to := primaries[0], primaries[1]
	fromHad, toHad := slotCount(t, from), slotCount(t, to)

	var writes atomic.Int64
	stop := load(t, func(ctx context.Context, _ int) error {
		return rdb.Incr(ctx, prefix+strconv.FormatInt(writes.Add(1)%500, 10)).Err()
	})
	waitFor(t, func() bool { return writes.Load() > 500 })
	err := c.Reshard(t.Context(), from, to, 300)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if got := slotCount(t, from); got != fromHad-300 {
		t.Errorf("the source serves %d slots, want %d", got, fromHad-300)
	}
	if got := slotCount(t, to); got != toHad+300 {
		t.Errorf("the target serves %d slots, want %d", got, toHad+300)
	}
	var total int64
	for i := range 500 {
		n, err := rdb.Get(t.Context(), prefix+strconv.Itoa(i)).Int64()
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != writes.Load() {
		t.Errorf("the keys add up to %d, want all %d writes", total, writes.Load())
	}
	if err := c.Reshard(t.Context(), from, to, rediscluster.Slots); err == nil {
		t.Error("Reshard gave away more slots than there were")
	}
}

// A primary that gives its last slot away becomes a replica of the new owner.
func TestReshardTakesAPrimarysLastSlot(t *testing.T) {
	c := redistest.Start(t, redistest.Options{})
	primaries := primaries(t, c)
	from, to := primaries[0], primaries[1]
	had := slotCount(t, to)
	gave := slotCount(t, from)
	if err := c.Reshard(t.Context(), from, to, gave); err != nil {
		t.Fatal(err)
	}
	if got := slotCount(t, to); got != had+gave {
		t.Errorf("the target serves %d slots, want %d", got, had+gave)
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

func TestFaultsOfAClusterWithReplicas(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := redistest.Start(t, redistest.Options{Replicas: 1, NodeTimeout: 500 * time.Millisecond})
	t.Logf("%v: %d nodes stood after %v", c.Version(), len(c.Nodes()), time.Since(began))
	const slot = 0
	old, err := c.Owner(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	replica := onlyReplica(t, c, old)

	// On demand: the two change places.
	if err := c.Failover(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	wantOwner(t, c, slot, replica)
	if got := onlyReplica(t, c, replica); got != old {
		t.Fatalf("%s follows, want the former primary", got.Addr())
	}

	// By death: they change back.
	began = time.Now()
	if err := replica.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("a replica was promoted %v after the kill", time.Since(began))
	wantOwner(t, c, slot, old)

	// Newcomers are taken in even while one is gone.
	another, err := c.AddReplica(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	if got := onlyReplica(t, c, old); got != another {
		t.Fatalf("%s follows, want the one that was added", got.Addr())
	}

	id := replica.ID()
	if err := replica.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Replicas(t.Context(), old); err != nil || len(got) != 2 || got[0] != replica {
		t.Fatalf("replicas = %v, %v; want the one that was restarted and the one that was added", got, err)
	}
	if got, err := replica.Client().Do(t.Context(), "CLUSTER", "MYID").Text(); err != nil || got != id {
		t.Errorf("after its restart the node is %q (%v), want %q as before", got, err, id)
	}
}

func TestPrimaryThatIsCutOffIsReplacedAndTakenBack(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{Replicas: 1, NodeTimeout: 500 * time.Millisecond})
	const slot = 0
	old, err := c.Owner(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	replica := onlyReplica(t, c, old)

	began := time.Now()
	for range 2 { // the second finds it cut off
		cutOff(t, old, rediscluster.Everybody)
	}
	if old.Running() {
		t.Error("a node that is cut off is said to run")
	}
	if err := old.Client().Ping(t.Context()).Err(); err == nil {
		t.Error("a node that is cut off answered")
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("a replica was promoted %v after the cut", time.Since(began))
	wantOwner(t, c, slot, replica)

	began = time.Now()
	for range 2 {
		if err := old.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("it was taken back %v after it was healed", time.Since(began))
	if got := onlyReplica(t, c, replica); got != old {
		t.Fatalf("%s follows, want the former primary", got.Addr())
	}
}

// Cut off from one side, a node answers the other.
func TestNodeIsCutOffFromOneSideAlone(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{Replicas: 1, NodeTimeout: 500 * time.Millisecond})
	const slot = 0
	old, err := c.Owner(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	cutOff(t, old, rediscluster.Clients)
	if err := old.Client().Ping(t.Context()).Err(); err == nil {
		t.Error("a node that is cut off from clients answered one")
	}
	waitFor(t, func() bool { // the peers go on hearing of it
		text, err := onlyReplica(t, c, old).Client().ClusterNodes(t.Context()).Result()
		return err == nil && !strings.Contains(text, "fail")
	})

	cutOff(t, old, rediscluster.Peers)
	if err := old.Client().Ping(t.Context()).Err(); err != nil {
		t.Errorf("a node that is cut off from its peers: %v", err)
	}
	successor, err := c.Successor(t.Context(), slot, old)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Heal(t.Context()), c.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := onlyReplica(t, c, successor); got != old {
		t.Fatalf("%s follows, want the former primary", got.Addr())
	}
}

func TestReplicaInStepHasWhatWasWritten(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{Replicas: 1})
	primary := primaries(t, c)[0]
	replica := onlyReplica(t, c, primary)
	keys := 0
	for i := range 200 {
		key := strconv.Itoa(i)
		if owner, err := c.Owner(t.Context(), slotOf(t, c, key)); err != nil {
			t.Fatal(err)
		} else if owner == primary {
			set(t, owner.Client(), key, "x")
			keys++
		}
	}
	if err := c.InStep(t.Context(), primary); err != nil {
		t.Fatal(err)
	}
	if got := replica.Client().DBSize(t.Context()).Val(); got != int64(keys) {
		t.Errorf("the replica in step has %d keys, want %d", got, keys)
	}
}

func TestRestartedNodeIsHealed(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	cutOff(t, s.Node, rediscluster.Everybody)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Cut(t.Context(), rediscluster.Everybody); err == nil {
		t.Error("a killed node was cut off")
	}
}

func cutOff(t *testing.T, n *rediscluster.Node, from rediscluster.Side) {
	t.Helper()
	redistest.Cut(t, n.Cut(t.Context(), from))
}

func TestHungNodeAnswersNothingUntilResumed(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	if s.Version().Name == "" {
		t.Error("no version")
	}
	set(t, s.Client(), "a", "1")
	if err := s.Hang(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Running() {
		t.Error("a hung node is said to run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got, err := s.Client().Incr(ctx, "a").Result(); err == nil {
		t.Errorf("a hung node answered %d", got)
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What was sent meanwhile runs late.
	waitFor(t, func() bool { return s.Client().Get(t.Context(), "a").Val() == "2" })
}

func TestKilledNodeRefusesUntilRestarted(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	set(t, s.Client(), "a", "1")
	if err := s.Hang(t.Context()); err != nil { // it can be killed even so
		t.Fatal(err)
	}
	for range 2 { // the second finds it gone
		if err := s.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var dialer net.Dialer
	if conn, err := dialer.DialContext(t.Context(), "tcp", s.Addr()); err == nil {
		t.Errorf("a killed node was dialled (%v)", conn.Close())
	}
	if err := s.Hang(t.Context()); err == nil {
		t.Error("a killed node was made to hang")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Client().Get(t.Context(), "a").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET after the restart: %v, want nothing left", err)
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

// twoPrimaries returns the one that serves the slot and another.
func twoPrimaries(t *testing.T, c *rediscluster.Cluster, slot int) (owner, other *rediscluster.Node) {
	t.Helper()
	owner, err := c.Owner(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range primaries(t, c) {
		if n != owner {
			return owner, n
		}
	}
	t.Fatal("there is but one primary")
	return nil, nil
}

func onlyReplica(t *testing.T, c *rediscluster.Cluster, primary *rediscluster.Node) *rediscluster.Node {
	t.Helper()
	replicas, err := c.Replicas(t.Context(), primary)
	if err != nil || len(replicas) != 1 {
		t.Fatalf("replicas of %s: %v, %v; want one", primary.Addr(), replicas, err)
	}
	return replicas[0]
}

func wantOwner(t *testing.T, c *rediscluster.Cluster, slot int, want *rediscluster.Node) {
	t.Helper()
	if got, err := c.Owner(t.Context(), slot); err != nil || got != want {
		t.Fatalf("Owner(%d) = %v, %v; want %s", slot, got, err, want.Addr())
	}
}

// slotCount returns how many slots the node says it serves.
func slotCount(t *testing.T, n *rediscluster.Node) int {
	t.Helper()
	count, err := n.SlotCount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// sumOf adds up the counters of a slot.
func sumOf(t *testing.T, n *rediscluster.Node, slot int) int64 {
	t.Helper()
	keys, err := n.Client().ClusterGetKeysInSlot(t.Context(), slot, 10_000).Result()
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, key := range keys {
		v, err := n.Client().Get(t.Context(), key).Int64()
		if err != nil {
			t.Fatal(err)
		}
		total += v
	}
	return total
}
