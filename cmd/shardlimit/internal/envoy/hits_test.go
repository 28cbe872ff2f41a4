package envoy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy"
)

func TestHitsAreCountedByWhatBecameOfThem(t *testing.T) {
	hits := envoy.NewHits()
	for _, h := range []envoy.Hit{
		{Descriptor: "d.k", Hits: 1},
		{Descriptor: "d.k", Hits: 3},
		{Descriptor: "d.k", Hits: 5, Over: true},
		{Descriptor: "d.k_v", Hits: 2, Over: true, Shadow: true},
	} {
		hits.Count(h)
	}
	const want = `# HELP shardlimit_envoy_hits_total Hits on Envoy's descriptors that have a rule, by what became of them.
# TYPE shardlimit_envoy_hits_total counter
shardlimit_envoy_hits_total{descriptor="d.k",outcome="ok"} 4
shardlimit_envoy_hits_total{descriptor="d.k",outcome="over_limit"} 5
shardlimit_envoy_hits_total{descriptor="d.k_v",outcome="shadowed"} 2
`
	if err := testutil.CollectAndCompare(hits, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestDescriptorsBeyondTheBoundAreCountedTogether(t *testing.T) {
	hits := envoy.NewHits()
	for i := range 5000 {
		hits.Count(envoy.Hit{Descriptor: fmt.Sprint("d.k_", i), Hits: 1})
	}
	if n := testutil.CollectAndCount(hits); n != 2001 {
		t.Errorf("%d series of 5000 descriptors, want 2000 and one for the others", n)
	}
}

func TestLongDescriptorsAreCountedTogether(t *testing.T) {
	hits := envoy.NewHits()
	longest := strings.Repeat("v", 256)
	for _, d := range []string{longest, longest + "1", longest + "2", strings.Repeat("v", 1<<20)} {
		hits.Count(envoy.Hit{Descriptor: d, Hits: 1})
	}
	want := `# HELP shardlimit_envoy_hits_total Hits on Envoy's descriptors that have a rule, by what became of them.
# TYPE shardlimit_envoy_hits_total counter
shardlimit_envoy_hits_total{descriptor="other",outcome="ok"} 3
shardlimit_envoy_hits_total{descriptor="` + longest + `",outcome="ok"} 1
`
	if err := testutil.CollectAndCompare(hits, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
