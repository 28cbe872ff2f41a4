package rediscluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMembers(t *testing.T) {
	const text = `07c3 127.0.0.1:30004@31004,host4 slave e7d1 0 1426238317239 4 connected
e7d1 127.0.0.1:30001@31001,host1 myself,master - 0 0 1 connected 0-5460 5462 [5461->-67ed]
67ed 127.0.0.1:30002@31002 master,fail? - 0 1426238316232 2 disconnected
`
	got, err := parseMembers(text)
	want := []member{
		{id: "07c3", flags: []string{"slave"}, primary: "e7d1", epoch: 4, linked: true},
		{id: "e7d1", flags: []string{"myself", "master"}, primary: "-", epoch: 1, linked: true, slots: []slotRange{{0, 5460}, {5462, 5462}}},
		{id: "67ed", flags: []string{"master", "fail?"}, primary: "-", epoch: 2},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(member{}, slotRange{})); err != nil || diff != "" {
		t.Fatalf("parseMembers: %v (-want +got)\n%s", err, diff)
	}
	if n := got[1].slotCount(); n != 5462 {
		t.Errorf("slotCount = %d, want 5462", n)
	}
	if got[1].serves(5461) || !got[1].serves(5462) {
		t.Error("want 5462 served, 5461 not")
	}
}

func TestParseMembersRefusesWhatItCannotRead(t *testing.T) {
	for _, text := range []string{
		"too short\n",
		"id addr master - 0 0 epoch connected\n",
		"id addr master - 0 0 1 connected one-two\n",
	} {
		if got, err := parseMembers(text); err == nil {
			t.Errorf("parseMembers(%q) = %v, want an error", text, got)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for line, want := range map[string]Version{
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64": {"redis", 7, 0, 15},
		"Valkey server v=9.1.2 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64": {"valkey", 9, 1, 2},
	} {
		if got, err := ParseVersion(line); err != nil || got != want {
			t.Errorf("ParseVersion(%q) = %v, %v; want %v", line, got, err, want)
		}
	}
	if got, err := ParseVersion("memcached 1.6"); err == nil {
		t.Errorf("ParseVersion took memcached for %v", got)
	}
}

func TestVersionAtLeast(t *testing.T) {
	v := Version{Name: "redis", Major: 7, Minor: 2}
	for _, c := range []struct {
		major, minor int
		want         bool
	}{{6, 9, true}, {7, 2, true}, {7, 3, false}, {8, 0, false}} {
		if got := v.AtLeast(c.major, c.minor); got != c.want {
			t.Errorf("%v.AtLeast(%d, %d) = %v, want %v", v, c.major, c.minor, got, c.want)
		}
	}
}

func TestEvenOutLeavesNoCountMoreThanOneAboveAnother(t *testing.T) {
	for _, counts := range [][]int{
		{16384},
		{5461, 5462, 5461},
		{5461, 5461, 5462, 0},
		{16384, 0, 0, 0, 0, 0, 0},
		{1, 16383},
	} {
		after := append([]int(nil), counts...)
		for _, m := range evenOut(counts) {
			after[m.from] -= m.slots
			after[m.to] += m.slots
		}
		least, most := after[0], after[0]
		for _, n := range after {
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 || sum(after) != sum(counts) {
			t.Errorf("evenOut(%v) leads to %v", counts, after)
		}
	}
}

func TestOptionsNameEveryFault(t *testing.T) {
	for _, o := range []Options{{Shards: -1}, {Replicas: -1}, {Shards: 50, Replicas: 1}, {NodeTimeout: 1}} {
		if _, err := o.withDefaults(); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
