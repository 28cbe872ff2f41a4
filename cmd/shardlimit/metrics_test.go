package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
)

// scrape returns the daemon's own metrics, by name.
func (d *daemon) scrape() map[string]*dto.MetricFamily {
	d.t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(d.wants(200, "GET", d.public+"/metrics", "")))
	if err != nil {
		d.t.Fatal(err)
	}
	maps.DeleteFunc(families, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "shardlimit_") })
	return families
}

// sum returns the sum of a counter's series that have all of these labels, each
// as name=value.
func sum(f *dto.MetricFamily, labels ...string) (total float64) {
	for _, s := range f.GetMetric() {
		if !slices.ContainsFunc(labels, func(want string) bool {
			return !slices.ContainsFunc(s.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName()+"="+l.GetValue() == want })
		}) {
			total += s.GetCounter().GetValue() + s.GetGauge().GetValue()
		}
	}
	return total
}

// rowOfMetric is a metric's row in docs/metrics.md: its name, type and labels.
var rowOfMetric = regexp.MustCompile("(?m)^\\| `(shardlimit_\\w+)` \\| (\\w+) \\| ([\\w, ]*) \\|")

// TestTheDocsListEveryMetricOfTheDaemon, Envoy's too. That each of the limiter's is there is held in package
// metrics.
func TestTheDocsListEveryMetricOfTheDaemon(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range rowOfMetric.FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = m[2] + " " + m[3]
	}
	limits := testfile.New(t, "shop.yaml", "{domain: shop, descriptors: [{key: client, rate_limit: {unit: year, requests_per_unit: 3}}]}")
	d, conn := startEnvoy(t, limits)
	d.wants(200, "POST", d.public+"/v1/check", `{"policy":"default","subject":"a"}`)
	if ok := hit(t, conn, "a", 5); ok != 3 {
		t.Errorf("%d of 5 hits were OK, want 3", ok)
	}
	families := d.scrape()
	shown := map[string]string{}
	for name, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		shown[name] = strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ", ")
	}
	for name, want := range listed {
		if _, is := shown[name]; !is && name != "shardlimit_envoy_hits_total" {
			shown[name] = want // nothing of its kind has happened
		}
	}
	if diff := cmp.Diff(listed, shown); diff != "" {
		t.Errorf("metrics (-listed +shown):\n%s", diff)
	}
	hits := families["shardlimit_envoy_hits_total"]
	if ok, over := sum(hits, "descriptor=shop.client", "outcome=ok"), sum(hits, "descriptor=shop.client", "outcome=over_limit"); ok != 3 || over != 2 {
		t.Errorf("%v hits were OK and %v over, want 3 and 2", ok, over)
	}
}
