package hotkey_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit/hotkey"
)

func TestSnapshotComesBackFromJSON(t *testing.T) {
	want := hotkey.Snapshot{
		Hot: []hotkey.HotKey{
			{Policy: "api", Subject: "a", Rate: 1000.5, Lease: &hotkey.LeaseState{Units: 20, Left: 3, Ends: 90 * time.Millisecond}},
		},
		Entries: 11, Cap: 1000, Leases: 1, Held: 3, Bytes: 4096,
		Counts: hotkey.Counts{Leased: 1, Denied: 2, TailDenied: 3, Missed: 4, Asks: 5, Lent: 6, GivenBack: 7, Forgotten: 8},
	}
	for reason := hotkey.Leasable; reason <= hotkey.TableFull; reason++ {
		want.Hot = append(want.Hot, hotkey.HotKey{Policy: "api", Subject: "b", Denied: time.Second, Cost: 2, NoLease: reason})
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got hotkey.Snapshot
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a snapshot after JSON (-want +got):\n%s", diff)
	}
}

func TestReasonRefusesOtherWords(t *testing.T) {
	for _, text := range []string{"not", "Reason(99)", "NOT HOT"} {
		r := hotkey.Cold
		if err := r.UnmarshalText([]byte(text)); err == nil || r != hotkey.Cold {
			t.Errorf("UnmarshalText(%q) = %v, and it is %q; want an error, and it as it was", text, err, r)
		}
	}
}
