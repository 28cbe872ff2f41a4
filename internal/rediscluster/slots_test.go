package rediscluster_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

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
