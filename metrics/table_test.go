package metrics_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/metrics"
)

// complete returns Metrics that show each metric at least once.
func complete(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := metrics.New(metrics.Config{})
	o := m.Observer()
	unknown := &shardlimit.UnavailableError{Unknown: true}
	o.Decided(t.Context(), shardlimit.Decision{Policy: "api", Cost: 1, Result: shardlimit.Result{
		Allowed: true, Granted: 1, Source: shardlimit.FromFallback, Failure: unknown,
	}})
	o.Sending("127.0.0.1:1", 1)
	m.ConfigLoaded(1)
	m.Watch(away(t))
	return m
}

func TestNamesAndHelpsPassPrometheussOwnLinter(t *testing.T) {
	problems, err := testutil.CollectAndLint(complete(t))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// row is a metric as docs/metrics.md has it.
var row = regexp.MustCompile("(?m)^\\| `shardlimit_.*\\|$")

func TestTheTableOfTheDocsIsComplete(t *testing.T) {
	var want []string
	families := gather(t, complete(t))
	for _, name := range slices.Sorted(maps.Keys(families)) {
		want = append(want, rowOf(families[name]))
	}
	got := row.FindAllString(ofPackage(read(t, table)), -1)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md (-want +got):\n%s", diff)
	}
}

// ofPackage returns what docs/metrics.md says of this package's metrics: the
// daemon has one more, which its own tests hold.
func ofPackage(text string) string {
	return strings.ReplaceAll(text, "| `shardlimit_envoy_hits_total`", "| `another's`")
}

func rowOf(f *dto.MetricFamily) string {
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, l.GetName())
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |",
		f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
}
