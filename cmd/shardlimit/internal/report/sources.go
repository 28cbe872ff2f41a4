package report

import (
	"fmt"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// Percent writes a part of a whole, with one more decimal where it's below 1 %.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	percent := 100 * float64(part) / float64(whole)
	if part > 0 && percent < 1 {
		return fmt.Sprintf("%.2f %%", percent)
	}
	return fmt.Sprintf("%.1f %%", percent)
}

// Each writes how many calls to Redis there were for each decision.
func Each(calls, decisions int64) string {
	if decisions == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(calls)/float64(decisions))
}

// sources shows who made the decisions, where there is a local tier.
func (t *Text) sources(e demo.End) {
	if e.Tier == nil {
		return
	}
	t.printf("\nWho decided: Redis, or this process by what it knows\n\n")
	t.sourceLine("", "redis", "lease", "denial", "fallback", "decisions")
	var all tally.Sources
	for i, s := range e.Sources {
		all.Add(s)
		n := s.All()
		t.sourceLine(e.Ledger.Lines[i].Policy,
			Percent(s.Redis, n), Percent(s.Lease, n), Percent(s.Denial, n), Percent(s.Fallback, n), Group(n))
	}
	t.printf("\n%s", sourceLegend)
	t.printf("\n%s\n", leases(*e.Tier, e.Calls, all.All()))
}

const sourceLegend = `  lease   allowed from units that were charged in Redis before, 200 ms ago at most
  denial  denied as Redis did a moment ago, or as the lease is empty: known for 250 ms at most
`

func (t *Text) sourceLine(name string, figures ...string) {
	t.printf("  %-8s", name)
	for _, f := range figures {
		t.printf("%11s", f)
	}
	t.printf("\n")
}

// leases says what the local tier saved, and what became of what it was lent.
func leases(c hotkey.Counts, calls, decisions int64) string {
	return fmt.Sprintf("%s calls to Redis, %s a decision\nleases: %s units lent in %s calls, %s given back, %s forgotten",
		Group(calls), Each(calls, decisions), Group(c.Lent), Group(c.Asks), Group(c.GivenBack), Group(c.Forgotten))
}

// edge says how the hot tenants fared.
func (t *Text) edge(e demo.End) {
	for i, line := range e.Ledger.Lines {
		if line.Policy == demo.Edge && e.Tier != nil {
			t.printf("%s\n", edge(line, e.Sources[i]))
		}
	}
}

func edge(line ledger.Line, s tally.Sources) string {
	return fmt.Sprintf("%s: %s decisions, %s of them asked Redis, over %s",
		line.Policy, Group(s.All()), Percent(s.Redis, s.All()), Group(line.Over))
}
