package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestASlotIsCrowdedFarAboveItsShare(t *testing.T) {
	crowd := func(one, others int64) []shardLoad {
		all := []slotLoad{{slot: 7, keys: one}}
		for i := range 1000 {
			all = append(all, slotLoad{slot: 100 + i, keys: others})
		}
		return []shardLoad{{slots: all}}
	}
	for _, tt := range []struct {
		one, others int64
		want        Verdict
	}{
		{0, 0, Fine},
		{10_000, 0, Fine}, // few
		{10_001, 0, Warning},
		{100_000, 17_000, Fine},       // 17 million: 96 times the share
		{1_000_000, 150_000, Warning}, // 151 million: 108 times
	} {
		f := judgeLoad(crowd(tt.one, tt.others))
		if f.Verdict != tt.want || !strings.HasPrefix(f.Read, "by keys, as the servers tell no time") {
			t.Errorf("%d keys beside 1,000 x %d: %+v, want %v by keys", tt.one, tt.others, f, tt.want)
		}
	}
}

func TestASlotIsBusyThatTakesMostOfItsShardsTime(t *testing.T) {
	shard := func(seconds ...int) shardLoad {
		load := shardLoad{timed: true}
		for i, s := range seconds {
			load.slots = append(load.slots, slotLoad{slot: 100*len(seconds) + i, keys: 1, took: time.Duration(s) * time.Second})
		}
		return load
	}
	for _, tt := range []struct {
		shards []shardLoad
		want   Verdict
		read   string
	}{
		{[]shardLoad{shard(9)}, Fine, "by time: the hottest slots: 100 (9s); by keys: 1 keys; "}, // little
		{[]shardLoad{shard(11)}, Warning, "by time: slot 100 took 11s of its shard's 11s; the hottest slots: 100 (11s)"},
		{[]shardLoad{shard(10, 10)}, Fine, "the hottest slots: 200 (10s), 201 (10s)"},
		{[]shardLoad{shard(100, 90, 30), shard(8, 8)}, Fine, "the hottest slots: 300 (1m40s), 301 (1m30s), 302 (30s)"},
		{[]shardLoad{shard(100, 90, 30), shard(8, 8), shard(1, 2, 1, 9)}, Warning, "slot 403 took 9s of its shard's 13s"},
		{[]shardLoad{shard(100), {slots: []slotLoad{{slot: 5, keys: 2}}}}, Fine, "by keys, as the servers tell no time"}, // one doesn't
	} {
		if f := judgeLoad(tt.shards); f.Verdict != tt.want || !strings.Contains(f.Read, tt.read) {
			t.Errorf("%+v: %+v, want %v that reads %q", tt.shards, f, tt.want, tt.read)
		}
	}
}

// TestSlotStatsAreRead in the forms that Valkey 8.1.1 gave: by RESP2, by RESP3, and
// unless cluster-slot-stats-enabled is yes.
func TestSlotStatsAreRead(t *testing.T) {
	entry := func(slot int64, stats any) any { return []any{slot, stats} }
	full := []any{"key-count", int64(1), "cpu-usec", int64(9), "network-bytes-in", int64(31), "network-bytes-out", int64(5)}
	empty := []any{"key-count", int64(0), "cpu-usec", int64(0), "network-bytes-in", int64(0), "network-bytes-out", int64(0)}
	mapped := map[any]any{"key-count": int64(1), "cpu-usec": int64(9), "network-bytes-in": int64(31), "network-bytes-out": int64(5)}
	nine := slotLoad{12182, 1, 9 * time.Microsecond}
	for _, tt := range []struct {
		name  string
		reply any
		want  shardLoad
		ok    bool
	}{
		{"RESP2", []any{entry(0, empty), entry(12182, full)}, shardLoad{[]slotLoad{{slot: 0}, nine}, true}, true},
		{"RESP3", []any{entry(12182, mapped)}, shardLoad{[]slotLoad{nine}, true}, true},
		{"not counting", []any{entry(12182, []any{"key-count", int64(1)})}, shardLoad{[]slotLoad{{slot: 12182, keys: 1}}, false}, true},
		{"no slots", []any{}, shardLoad{}, true},
		{"text", "OK", shardLoad{}, false},
		{"no pairs", []any{int64(1), full}, shardLoad{}, false},
		{"no count", []any{entry(1, []any{"cpu-usec", int64(1)})}, shardLoad{}, false},
		{"odd list", []any{entry(1, []any{"key-count"})}, shardLoad{}, false},
	} {
		got, ok := readSlotStats(tt.reply)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(shardLoad{}, slotLoad{})); ok != tt.ok || diff != "" {
			t.Errorf("%s: %t (-want +got)\n%s", tt.name, ok, diff)
		}
	}
}
