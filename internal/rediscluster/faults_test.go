package rediscluster_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

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

func onlyReplica(t *testing.T, c *rediscluster.Cluster, primary *rediscluster.Node) *rediscluster.Node {
	t.Helper()
	replicas, err := c.Replicas(t.Context(), primary)
	if err != nil || len(replicas) != 1 {
		t.Fatalf("replicas of %s: %v, %v; want one", primary.Addr(), replicas, err)
	}
	return replicas[0]
}
