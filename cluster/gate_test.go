package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// gate is one that the test opens and shuts. It keeps what it's told.
type gate struct {
	mu      sync.Mutex
	open    map[string]bool
	reports []report
}

type report struct {
	shard string
	class failover.Class // 0: answered
}

func (g *gate) Open(shard string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open[shard]
}

func (g *gate) Report(shard string, _ int64, err *failover.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := report{shard: shard}
	if err != nil {
		r.class = err.Class
	}
	g.reports = append(g.reports, r)
}

func (g *gate) want(t *testing.T, want ...report) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.reports, want) {
		t.Errorf("reports %v, want %v", g.reports, want)
	}
	g.reports = nil
}

func TestGateIsToldOnceOfEachCall(t *testing.T) {
	reply := ""
	server := newFake(t, func(int64, string) string { return reply })
	g := &gate{}
	c := server.client(t, Options{Timeout: patient, Gate: g})
	for _, tt := range []struct {
		reply string
		class failover.Class
	}{
		{granted(), 0},
		{"-OOM command not allowed when used memory > 'maxmemory'.\r\n", failover.NeverRan},
		{"-NOPERM no permission\r\n", failover.Configuration},
		{"", failover.Unknown}, // closes the connection
	} {
		reply = tt.reply
		_, _ = c.Do(t.Context(), take(many, "key"))
		g.want(t, report{server.addr(), tt.class})
	}
}

func TestGateIsNotToldOfCallersWhoGiveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := newFake(t, func(call int64, _ string) string {
		if call == 3 {
			cancel()
		}
		return "-LOADING Redis is loading the dataset in memory\r\n"
	})
	g := &gate{}
	c := server.client(t, Options{Timeout: patient, Gate: g})
	for range 2 { // the second has given up before it starts
		if _, err := c.Do(ctx, take(many, "key")); err == nil {
			t.Error("Do of a caller who cancels: no error")
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, take(many, "key")); err == nil {
		t.Error("Do of a caller who waits for 1 ms: no error")
	}
	g.want(t)
}

func TestGateIsToldOfATimeoutThatIsNotTheCallers(t *testing.T) {
	server := newFake(t, func(call int64, _ string) string {
		if call == 1 {
			return granted()
		}
		return "-LOADING Redis is loading the dataset in memory\r\n"
	})
	g := &gate{}
	c := server.client(t, Options{Timeout: time.Millisecond, Gate: g})
	if _, err := c.DoUntil(t.Context(), time.Now().Add(patient), take(many, "key")); err != nil {
		t.Fatal(err) // it's known who serves what from now on
	}
	g.want(t, report{server.addr(), 0})
	if _, err := c.Do(t.Context(), take(many, "key")); err == nil {
		t.Error("Do within a timeout of 1 ms: no error")
	}
	if len(g.reports) != 1 || g.reports[0].shard != server.addr() || !g.reports[0].class.Unavailable() {
		t.Errorf("reports %v, want one, that %s is unavailable", g.reports, server.addr())
	}
}

func TestCallThatMeetsAnOpenBreakerIsNotSent(t *testing.T) {
	server := newFake(t, func(int64, string) string { return granted() })
	for _, shard := range []string{server.addr(), ""} {
		g := &gate{open: map[string]bool{shard: true}}
		c := server.client(t, Options{Timeout: patient, Gate: g})
		f := wantError(t.Context(), t, c, take(many, "key"), failover.NeverRan)
		if !errors.Is(f, failover.ErrOpen) || f.Shard != shard {
			t.Errorf("Do = %v, want %v of the shard %q", f, failover.ErrOpen, shard)
		}
		g.want(t)
	}
	if n := server.calls.Load(); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
}

func TestProbeIsRefusedLikeADecision(t *testing.T) {
	for _, tt := range []struct {
		reply string
		class failover.Class // 0: would be answered
	}{
		{":1\r\n", 0},
		{"-ASK 42 127.0.0.1:1\r\n", 0},
		{"-LOADING Redis is loading the dataset in memory\r\n", failover.NeverRan},
		{"-CLUSTERDOWN The cluster is down\r\n", failover.NeverRan},
		{"-MOVED 42 127.0.0.1:1\r\n", 0},
		{"-NOPERM no permission\r\n", failover.Configuration},
		{"", failover.NeverRan}, // closes the connection
	} {
		reply := granted()
		server := newFake(t, func(int64, string) string { return reply })
		c := server.client(t, Options{Timeout: patient})
		do(t, c, take(many, "key")) // makes the shard known, and a key of it
		reply = tt.reply
		err := c.Probe(t.Context(), server.addr())
		f, ok := errors.AsType[*failover.Error](err)
		if ok != (tt.class != 0) || ok && (f.Class != tt.class || f.Shard != server.addr()) {
			t.Errorf("Probe, replied with %q: %v, want class %v", tt.reply, err, tt.class)
		}
	}
}

func TestProbeReachesEachShardOfACluster(t *testing.T) {
	servers := redistest.Start(t, redistest.Options{})
	c := newTestClient(t, servers, nil)
	if got := c.Shards(); got != nil {
		t.Errorf("Shards before Reload = %v", got)
	}
	if err := c.Probe(t.Context(), ""); err != nil {
		t.Errorf("Probe for a topology: %v", err)
	}
	c.Reload(t.Context())
	got, want := c.Shards(), servers.Addrs()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("Shards = %v, want %v", got, want)
	}
	for i := range 64 { // makes each shard known, and a key of it
		do(t, c, take(many, fmt.Sprintf("%s-%d", redistest.Prefix(t), i)))
	}
	for _, shard := range got {
		if err := c.Probe(t.Context(), shard); err != nil {
			t.Errorf("Probe(%s): %v", shard, err)
		}
	}
	if err := c.Probe(t.Context(), "127.0.0.1:1"); err == nil {
		t.Error("Probe of a server elsewhere: no error")
	}

	dead := servers.Nodes()[0]
	if err := dead.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f, ok := errors.AsType[*failover.Error](c.Probe(t.Context(), dead.Addr())); !ok || f.Class != failover.NeverRan {
		t.Errorf("Probe of a server that was killed: %v", f)
	}
}

func TestProbeReturnsWithItsContext(t *testing.T) {
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			server := newFakeOf(t, func(_ int64, command []string) string {
				if command[1] == probe {
					<-release
				}
				return granted()
			})
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
