package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// told notes what hooks are told.
type told struct {
	mu      sync.Mutex
	sent    []string
	reloads int
}

func (h *told) hooks() Hooks {
	return Hooks{
		Sending: func(shard string, calls int) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.sent = append(h.sent, fmt.Sprint(shard, " ", calls))
		},
		Reloading: func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.reloads++
		},
	}
}

func TestHooksAreToldHowManyCallsGoOutTogether(t *testing.T) {
	release := make(chan struct{})
	server := newFakeOf(t, holding(release, func(int64, []string) string { return granted() }))
	var h told
	opts := single
	opts.Hooks = h.hooks()
	c := server.client(t, opts)
	s := shardOf(t, c)
	g := gather(t.Context(), t, c, s, "a", "b", "c")
	close(release)
	g.results()
	eventually(t, "an end", func() bool { return !s.underWay() })
	if _, err := c.Do(context.Background(), take(many, "alone")); err != nil { // it has no end, so the call goes alone
		t.Fatal(err)
	}
	want := []string{s.addr + " 1", s.addr + " 3", s.addr + " 1"}
	if !slices.Equal(h.sent, want) || h.reloads != 0 {
		t.Errorf("told of batches %q and %d reloads, want %q and none", h.sent, h.reloads, want)
	}
}

func TestHooksAreToldOfReloads(t *testing.T) {
	var first, second *fake
	second = newFake(t, func(int64, string) string { return granted() })
	first = newFake(t, func(int64, string) string { return fmt.Sprintf("-MOVED 1 %s\r\n", second.addr()) })
	second.owner = first.addr()
	var h told
	c := first.client(t, Options{Timeout: patient, Hooks: h.hooks()})
	do(t, c, take(many, "moved"))
	if h.reloads != 1 {
		t.Errorf("told of %d reloads after a MOVED, want 1", h.reloads)
	}
}
