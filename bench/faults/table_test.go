package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/drill"
)

// A report that is late is no failure; one that broke a promise is, and says why.
func TestVerdicts(t *testing.T) {
	const fast, slow = time.Millisecond, time.Second
	control := drill.Latency{Calls: 9, P99: fast, P999: fast, Max: fast}
	latency := func(d time.Duration) drill.Latency { return drill.Latency{Calls: 9, P99: d, P999: d, Max: d} }
	r := &result{Options: drill.Options{Timeout: 50 * time.Millisecond}, Control: control}
	for _, report := range []*drill.Report{
		{Name: "well", All: latency(fast), Others: latency(fast), Open: latency(fast)},
		{Name: "slow", All: latency(slow), Others: latency(fast)},
		{Name: "unfair", All: latency(fast), Others: latency(2 * fast)},
		{Name: "blind", All: latency(fast), Promoted: true, Again: slow},
		{Name: "twice", All: latency(fast), Broken: []string{"charged twice: 3"}},
	} {
		r.Reports = append(r.Reports, report)
		r.Bounds = append(r.Bounds, judge(report, control, r.Options))
	}
	var out strings.Builder
	if err := asTable(&out, r); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"well": "PASS", "slow": "late", "unfair": "late", "blind": "late", "twice": "FAIL"} {
		if got := lastCell(out.String(), name); got != want {
			t.Errorf("%s: %s, want %s, in\n%s", name, got, want, &out)
		}
	}
	if !r.broken() || !strings.Contains(out.String(), "FAIL  twice: charged twice: 3") {
		t.Errorf("no failure in\n%s", &out)
	}
}

// lastCell returns the last cell of the line of that name.
func lastCell(text, name string) string {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if strings.TrimSpace(cells[0]) == name {
			return strings.TrimSpace(cells[len(cells)-1])
		}
	}
	return ""
}
