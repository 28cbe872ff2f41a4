package shardlimit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// recorder is an observer that keeps what it's told.
type recorder struct {
	mu      sync.Mutex
	changes []string      // as "127.0.0.1:7000 opened"
	told    chan struct{} // closed at the next change
}

func newRecorder() *recorder { return &recorder{told: make(chan struct{})} }

func (r *recorder) observer() shardlimit.Observer {
	state := func(on bool, yes, no string) string {
		if on {
			return yes
		}
		return no
	}
	return shardlimit.Observer{
		BreakerChanged:  func(c shardlimit.BreakerChange) { r.add(c.Shard, state(c.Open, "opened", "closed")) },
		FallbackChanged: func(c shardlimit.FallbackChange) { r.add(c.Shard, state(c.InUse, "fallback", "recovered")) },
		TopologyChanged: func(shards []string) { r.add("topology", fmt.Sprint(len(shards))) },
		Misconfigured:   func(shard string, err error) { r.add(shard, err.Error()) },
	}
}

func (r *recorder) add(subject, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, subject+" "+what)
	close(r.told)
	r.told = make(chan struct{})
}

// of returns what changed for a subject, so far.
func (r *recorder) of(subject string) ([]string, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var changes []string
	for _, c := range r.changes {
		if what, ok := strings.CutPrefix(c, subject+" "); ok {
			changes = append(changes, what)
		}
	}
	return changes, r.told
}

// wait waits until what has happened to the subject.
func (r *recorder) wait(t *testing.T, subject, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		changes, told := r.of(subject)
		if slices.Contains(changes, what) {
			return
		}
		select {
		case <-told:
		case <-ctx.Done():
			t.Fatalf("%s: %v; want %q", subject, changes, what)
		}
	}
}

func (r *recorder) saw(subject, what string) bool {
	changes, _ := r.of(subject)
	return slices.Contains(changes, what)
}

func (r *recorder) want(t *testing.T, subject string, want ...string) {
	t.Helper()
	if got, _ := r.of(subject); !slices.Equal(got, want) {
		t.Errorf("changes of %s: %q, want %q", subject, got, want)
	}
}
