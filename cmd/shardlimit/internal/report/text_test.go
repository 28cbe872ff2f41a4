package report

import (
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

func TestLedgerNamesWhatAKilledPrimaryMayCost(t *testing.T) {
	for _, c := range []struct {
		kills int
		want  string
	}{
		{1, "a primary was killed: over at most what its replica had not received, so up to 25 units; seen: 3."},
		{2, "2 primaries were killed: over at most what their replicas had not received, so up to 25 units; seen: 3."},
	} {
		var out strings.Builder
		NewText(&out).End(demo.End{Done: stage.Done{Kills: c.kills}, Ledger: ledger.Ledger{AtRisk: 25, Lost: 3}})
		if !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), "every promise was kept") {
			t.Errorf("no %q, or no verdict, in\n%s", c.want, &out)
		}
	}
}

func TestLedgerWithoutAKillSaysNothingOfOne(t *testing.T) {
	var out strings.Builder
	NewText(&out).End(demo.End{})
	if strings.Contains(out.String(), "killed") {
		t.Errorf("a word of a kill in\n%s", &out)
	}
}
