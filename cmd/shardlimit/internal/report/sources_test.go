package report

import (
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// hotEnd is the end of a run in which most was decided without Redis.
func hotEnd() demo.End {
	return demo.End{
		Ledger:  ledger.Ledger{Lines: []ledger.Line{{Policy: demo.Edge}, {Policy: "login"}}},
		Sources: []tally.Sources{{Redis: 2, Lease: 598, Denial: 400}, {Redis: 40, Fallback: 10}},
		Calls:   210,
		Tier:    &hotkey.Counts{Lent: 700, Asks: 170, GivenBack: 95, Forgotten: 7},
	}
}

func TestEndSaysWhoDecidedAndWhatBecameOfLeases(t *testing.T) {
	var out strings.Builder
	NewText(&out).End(hotEnd())
	for _, want := range []string{
		"edge 0.20 % 59.8 % 40.0 % 0.0 % 1,000",
		"login 80.0 % 0.0 % 0.0 % 20.0 % 50",
		"210 calls to Redis, 0.200 a decision leases: 700 units lent in 170 calls, 95 given back, 7 forgotten",
		"edge: 1,000 decisions, 0.20 % of them asked Redis, over 0",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestPercentShowsWhatIsSmall(t *testing.T) {
	for part, want := range map[int64]string{0: "0.0 %", 5: "0.05 %", 99: "0.99 %", 100: "1.0 %", 10_000: "100.0 %"} {
		if got := Percent(part, 10_000); got != want {
			t.Errorf("Percent(%d, 10000) = %q, want %q", part, got, want)
		}
	}
	if got := Percent(0, 0); got != "-" {
		t.Errorf("Percent(0, 0) = %q", got)
	}
}

func TestEndOfWhatKeepsNothingSaysNothingOfLeases(t *testing.T) {
	var out strings.Builder
	e := hotEnd()
	e.Tier = nil
	NewText(&out).End(e)
	if strings.Contains(out.String(), "Who decided") || strings.Contains(out.String(), "edge:") {
		t.Errorf("a word of the local tier in\n%s", &out)
	}
}

func TestTextFitsInAHundredColumns(t *testing.T) {
	var out strings.Builder
	text := NewText(&out)
	text.Scene(demo.Scene{Lends: true})
	text.head()
	text.tick("123.4 s", "1,234,567", "123,456", "123,456", "100.0 %", "100.0 %", "100.0 %", "999.9 µs", "999.9 ms", "123,456", "1,234")
	e := hotEnd()
	e.Ledger.Lines[0] = ledger.Line{
		Policy: "search", Limits: []string{"20/s burst 40 gcra"},
		Asked: 99_999_999, Admitted: 99_999_999, Unknown: 9_999_999, Subjects: 10_000, Exact: 10_000, Over: 1000, Under: 10_000,
	}
	text.End(e)
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(line)); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
