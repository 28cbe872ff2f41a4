package page

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

func TestEachChangeIsToldInWords(t *testing.T) {
	r := NewRecord()
	told := r.Observer()
	r.Configured(reload.Status{Path: "limits.yaml", Generation: 1})
	told.TopologyChanged([]string{"a:1", "b:1"})
	told.FallbackChanged(shardlimit.FallbackChange{Shard: "a:1", InUse: true, Err: &shardlimit.UnavailableError{Shard: "a:1", Unknown: true, Err: errors.New("EOF")}})
	told.BreakerChanged(shardlimit.BreakerChange{Shard: "a:1", Open: true, Err: &shardlimit.UnavailableError{Shard: "a:1", Err: errors.New("refused")}})
	told.BreakerChanged(shardlimit.BreakerChange{Shard: "a:1", After: 1200 * time.Millisecond, Gone: true})
	told.FallbackChanged(shardlimit.FallbackChange{
		Shard: "a:1", After: 3 * time.Second, Unanswered: shardlimit.Unanswered{NeverRan: 2, Unknown: 3, Open: 4000},
	})
	told.Misconfigured("b:1", errors.New("NOPERM"))
	r.Configured(reload.Status{Generation: 1, Fault: "limits.yaml:1:1: bad"})
	r.Configured(reload.Status{Generation: 2})

	type row struct {
		Grade               grade
		What, Shard, Detail string
	}
	var got []row
	kept, total := r.journal.latest()
	for _, c := range kept {
		got = append(got, row{c.grade, c.what, c.shard, c.detail})
	}
	want := []row{
		{plain, "Configuration reloaded", "", "generation 2"},
		{bad, "Configuration refused", "", "limits.yaml:1:1: bad"},
		{bad, "Misconfigured", "b:1", "NOPERM"},
		{good, "Fallback ended", "a:1", "after 3.0 s: 4,000 calls not sent, 2 that never ran, 3 unknown"},
		{good, "Breaker closed", "a:1", "after 1.2 s, as the shard serves no slots any more"},
		{bad, "Breaker opened", "a:1", "refused"},
		{bad, "Fallback began", "a:1", "EOF, outcome unknown"},
		{plain, "Topology changed", "", "2 primaries: a:1, b:1"},
		{plain, "Started", "", "limits.yaml"},
	}
	if diff := cmp.Diff(want, got); diff != "" || total != len(want) {
		t.Errorf("%d changes (-want +got):\n%s", total, diff)
	}
}

func TestTheJournalIsBounded(t *testing.T) {
	var j journal
	const all = 2*journalCap + 5
	for i := range all {
		j.add(change{what: strconv.Itoa(i), detail: strings.Repeat("x", 1_000_000)})
	}
	kept, total := j.latest()
	if len(kept) != journalCap || total != all || kept[0].what != strconv.Itoa(all-1) || kept[journalCap-1].what != strconv.Itoa(all-journalCap) {
		t.Errorf("%d of %d kept, %s to %s; want the latest %d", len(kept), total, kept[0].what, kept[len(kept)-1].what, journalCap)
	}
	if n := len(kept[0].detail); n > detailCap+len("…") {
		t.Errorf("%d bytes of a detail are kept", n)
	}
}
