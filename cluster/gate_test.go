package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/failover"
)

// note is a Gate that opens when told to, and notes what it is told.
type note struct {
	mu    sync.Mutex
	open  bool
	shard string
	seen  []failover.Class // 0: answered
}

func (n *note) Open(shard string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shard = shard
	return n.open
}

func (n *note) Report(shard string, err *failover.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shard = shard
	class := failover.Class(0)
	if err != nil {
		class = err.Class
	}
	n.seen = append(n.seen, class)
}

// take returns what was seen, and forgets it.
func (n *note) take() []failover.Class {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen
	n.seen = nil
	return seen
}

func TestAnOpenGateSendsNothing(t *testing.T) {
	server := newFakeOf(t, func(int64, []string) string { return granted() })
	gate := &note{open: true}
	c := server.client(t, Options{Timeout: patient, Gate: gate})
	f := wantError(t.Context(), t, c, take(many, "key"), failover.NeverRan)
	if !errors.Is(f, ErrOpen) || f.Shard != server.addr() || gate.shard != server.addr() {
		t.Errorf("Do = %v, want %v of %s", f, ErrOpen, server.addr())
	}
	if n := server.calls.Load(); n != 0 || gate.take() != nil {
		t.Errorf("sent %d times, reported %v; want neither", n, gate.seen)
	}
	gate.open = false
	do(t, c, take(many, "key"))
}

func TestTheGateIsToldWhatBecameOfEachCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := newFakeOf(t, func(call int64, command []string) string {
		switch key := command[3]; {
		case key == "noscript" && command[0] == "evalsha":
			return "-NOSCRIPT No matching script.\r\n"
		case key == "list":
			return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
		case key == "loading" && call%2 == 0:
			return "-LOADING Redis is loading the dataset in memory\r\n"
		case key == "lost":
			return ""
		case key == "hangs":
			cancel()
			<-t.Context().Done()
			return ""
		}
		return granted()
	})
	gate := &note{}
	c := server.client(t, Options{Timeout: patient, Gate: gate})
	tests := []struct {
		key  string
		want []failover.Class
	}{
		{"plain", []failover.Class{0}},
		{"loading", []failover.Class{failover.NeverRan, 0}}, // the 2nd and the 3rd
		{"noscript", []failover.Class{0, 0}},
		{"list", []failover.Class{failover.Configuration}},
		{"lost", []failover.Class{failover.Unknown}},
		{"hangs", nil}, // the caller cancels
	}
	for _, tt := range tests {
		_, _ = c.Do(ctx, take(many, tt.key))
		if got := gate.take(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: reported %v, want %v", tt.key, got, tt.want)
		}
	}
}

func TestProbeAsksWhatWasAskedLast(t *testing.T) {
	server := newFakeOf(t, func(int64, []string) string { return granted() })
	var reply atomic.Value // a string
	var key atomic.Value   // that was read
	server.get = func(k string) string {
		key.Store(k)
		return reply.Load().(string)
	}
	c := server.client(t, Options{Timeout: patient})
	if err := c.Probe(t.Context(), server.addr()); err == nil {
		t.Error("Probe of a shard that isn't known: want an error")
	}
	do(t, c, take(many, "key"))
	if got := c.Shards(); !slices.Equal(got, []string{server.addr()}) {
		t.Errorf("Shards() = %v, want %s", got, server.addr())
	}
	tests := []struct {
		reply string
		ok    bool
	}{
		{"$5\r\nkey:1\r\n", true},
		{"-MOVED 1 127.0.0.1:1\r\n", true},
		{"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", true},
		{"-LOADING Redis is loading the dataset in memory\r\n", false},
		{"-CLUSTERDOWN The cluster is down\r\n", false},
		{"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", false},
		{"", false},
	}
	for _, tt := range tests {
		reply.Store(tt.reply)
		if err := c.Probe(t.Context(), server.addr()); (err == nil) != tt.ok {
			t.Errorf("Probe, answered %q: %v", tt.reply, err)
		}
	}
	if key.Load() != "key" {
		t.Errorf("Probe read %q, want the key that was asked for", key.Load())
	}
}

func TestProbeReturnsWithItsContext(t *testing.T) {
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			server := newFakeOf(t, func(int64, []string) string { return granted() })
			server.get = func(string) string { <-release; return "$-1\r\n" }
			c := connect(server, t, Options{Timeout: patient})
			do(t, c, take(many, "key"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if err := c.Probe(ctx, server.addr()); err == nil {
				t.Error("Probe of a server that hangs: want an error")
			}
			if name == "plain" { // the first is held by its socket
				if err := c.Probe(t.Context(), server.addr()); !errors.Is(err, ErrProbing) {
					t.Errorf("a second Probe = %v, want %v", err, ErrProbing)
				}
			}
			close(release)
			eventually(t, "a probe", func() bool { return c.Probe(t.Context(), server.addr()) == nil })
		})
	}
}
