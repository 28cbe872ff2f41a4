package stage

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/keys"
)

// served is a range of slots, its primary first.
func served(start, end int, addrs ...string) redis.ClusterSlot {
	s := redis.ClusterSlot{Start: start, End: end}
	for _, a := range addrs {
		s.Nodes = append(s.Nodes, redis.ClusterNode{Addr: a})
	}
	return s
}

func TestShardKeepsItsNumberWhenAReplicaTakesOver(t *testing.T) {
	const middle = keys.Slots / 2
	var o owners
	for _, step := range []struct {
		name   string
		ranges []redis.ClusterSlot
		want   []owner // by number; nodes aside
	}{
		{
			"at first",
			[]redis.ClusterSlot{served(middle, keys.Slots-1, "b", "b2"), served(0, middle-1, "a")},
			[]owner{{primary: "a", slots: middle}, {primary: "b", slots: middle}},
		},
		{
			"a has a replica",
			[]redis.ClusterSlot{served(0, middle-1, "a", "a2"), served(middle, keys.Slots-1, "b", "b2")},
			[]owner{{primary: "a", slots: middle}, {primary: "b", slots: middle}},
		},
		{
			"a is gone",
			[]redis.ClusterSlot{served(0, middle-1, "a2"), served(middle, keys.Slots-1, "b", "b2")},
			[]owner{{primary: "a2", slots: middle}, {primary: "b", slots: middle}},
		},
		{
			"a is a replica and gave slots away",
			[]redis.ClusterSlot{served(0, 9, "b", "b2"), served(10, middle-1, "a2", "a"), served(middle, keys.Slots-1, "b", "b2")},
			[]owner{{primary: "a2", slots: middle - 10}, {primary: "b", slots: middle + 10}},
		},
	} {
		if err := o.see(step.ranges); err != nil {
			t.Fatal(err)
		}
		for i, got := range o.all() {
			if want := step.want[i]; got.primary != want.primary || got.slots != want.slots {
				t.Errorf("%s: shard %d is %+v, want %+v", step.name, i, got, want)
			}
		}
	}
	if o.of(9) != 1 || o.of(10) != 0 || o.number("a") != 0 || o.number("new") != -1 {
		t.Errorf("slots 9 and 10 are with %d and %d, want 1 and 0; a is of %d, want 0", o.of(9), o.of(10), o.number("a"))
	}
}

func TestShardThatCameSinceHasNoNumber(t *testing.T) {
	var o owners
	for _, ranges := range [][]redis.ClusterSlot{{served(0, keys.Slots-1, "a")}, {served(0, keys.Slots-1, "new")}} {
		if err := o.see(ranges); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.of(0); got != -1 {
		t.Errorf("slot 0 is with shard %d, want -1", got)
	}
}

func TestRangeWithoutNodesIsAnError(t *testing.T) {
	var o owners
	if o.see([]redis.ClusterSlot{{End: 5}}) == nil {
		t.Error("no error")
	}
}
