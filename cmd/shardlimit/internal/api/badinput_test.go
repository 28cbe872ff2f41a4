package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestBadInputChangesNothingInRedis: the whole table, and slow clients, against what the cluster
// holds before and after.
func TestBadInputChangesNothingInRedis(t *testing.T) {
	cluster, prefix := redistest.Shared(t), redistest.Prefix(t)
	l, err := shardlimit.Open(cluster.ClientOptions(), shardlimit.Config{Prefix: prefix, Timeout: 10 * time.Second})
	s := serve(t, closing.Opened(t, l, err), newContract(t))
	for _, policy := range []string{"api", "closed", "gcra", "shadow"} { // so that there is something to change
		s.check(`{"policy":"` + policy + `","subject":"a","cost":2}`)
	}
	before := redistest.Dump(t, cluster, prefix)
	if len(before) != 4 {
		t.Fatalf("%d keys, want one for each policy", len(before))
	}
	s.badInput()
	for _, path := range []string{"/v1/check", "/v1/refund", "/v1/reset"} {
		s.slow(path)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, cluster, prefix)); diff != "" {
		t.Errorf("bad input changed (-before +after):\n%s", diff)
	}
}
