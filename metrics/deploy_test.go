package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// The files that name metrics, for others to read.
const (
	dashboard = "../deploy/grafana/shardlimit.json"
	alerts    = "../deploy/prometheus/shardlimit.rules.yml"
	table     = "../docs/metrics.md"
)

var (
	name     = regexp.MustCompile(`\bshardlimit_\w+`)
	selector = regexp.MustCompile(`\b(shardlimit_\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+) *(?:=|!=|=~|!~) *"`)
	part     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// given are labels that Prometheus adds, or the histogram itself.
var given = []string{"job", "instance", "le"}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `\"`, `"`) // queries in JSON
}

func TestDeployNamesNoMetricsButRealOnes(t *testing.T) {
	families := gather(t, complete(t))
	for _, path := range []string{dashboard, alerts, table} {
		text := ofPackage(read(t, path))
		for _, n := range name.FindAllString(text, -1) {
			if familyOf(families, n) == nil {
				t.Errorf("%s: there is no %s", path, n)
			}
		}
		for _, s := range selector.FindAllStringSubmatch(text, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				if f := familyOf(families, s[1]); f != nil && !hasLabel(f, m[1]) {
					t.Errorf("%s: %s has no label %s", path, s[0], m[1])
				}
			}
		}
	}
}

// familyOf returns the metric that a query's name is of.
func familyOf(families map[string]*dto.MetricFamily, name string) *dto.MetricFamily {
	if f := families[name]; f != nil && f.GetType() != dto.MetricType_HISTOGRAM {
		return f
	}
	if f := families[part.ReplaceAllString(name, "")]; f != nil && f.GetType() == dto.MetricType_HISTOGRAM {
		return f
	}
	return nil
}

func hasLabel(f *dto.MetricFamily, label string) bool {
	return slices.Contains(given, label) || slices.ContainsFunc(f.GetMetric()[0].GetLabel(), func(l *dto.LabelPair) bool {
		return l.GetName() == label
	})
}

func TestDashboardShowsEveryMetric(t *testing.T) {
	text := read(t, dashboard)
	for n := range gather(t, complete(t)) {
		if !strings.Contains(text, n) {
			t.Errorf("the dashboard doesn't show %s", n)
		}
	}
}

func TestDashboardHasAQueryInEachPanel(t *testing.T) {
	raw, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title  string
		Panels []struct {
			ID          int
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil || len(d.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(d.Panels), err)
	}
	seen := map[int]bool{}
	for _, p := range d.Panels {
		if seen[p.ID] || p.Title == "" || len(p.Targets) == 0 || slices.ContainsFunc(p.Targets, func(q struct{ Expr string }) bool { return q.Expr == "" }) {
			t.Errorf("panel %+v: want an id of its own, a title and a query", p)
		}
		seen[p.ID] = true
	}
}
