package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

func (g *gate) Report(shard string, err *failover.Error) {
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
	for range 2 {
		_ = wantError(ctx, t, c, take(many, "key"), failover.NeverRan)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, take(many, "key")); err == nil {
		t.Error("Do of a caller who waits for 1 ms: no error")
	}
	g.want(t)
}

func TestGateIsToldOfATimeoutThatIsNotTheCallers(t *testing.T) {
	server := newFake(t, func(int64, string) string { return "-LOADING Redis is loading the dataset in memory\r\n" })
	g := &gate{}
	c := server.client(t, Options{Timeout: time.Millisecond, Gate: g})
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
		{"-MOVED 42 127.0.0.1:1\r\n", failover.NeverRan},
		{"-NOPERM no permission\r\n", failover.Configuration},
		{"", failover.NeverRan}, // closes the connection
	} {
		server := newFake(t, func(int64, string) string { return tt.reply })
		c := server.client(t, Options{Prefix: "rl"})
		err := c.Probe(t.Context(), server.addr())
		f, ok := errors.AsType[*failover.Error](err)
		if ok != (tt.class != 0) || ok && (f.Class != tt.class || f.Shard != server.addr()) {
			t.Errorf("Probe, replied with %q: %v, want class %v", tt.reply, err, tt.class)
		}
	}
}

func TestProbeReachesEachShardOfACluster(t *testing.T) {
	servers := redistest.Start(t, redistest.Options{Args: append([]string{"--user"},
		"limiter", "on", ">secret", "~rl:*", "+evalsha", "+eval", "+cluster|slots")})
	c := newTestClient(t, servers, func(o *redis.ClusterOptions) { o.Username, o.Password = "limiter", "secret" })
	c.opts.Prefix = "rl"
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
	for _, shard := range got {
		if err := c.Probe(t.Context(), shard); err != nil {
			t.Errorf("Probe(%s): %v", shard, err)
		}
	}
	if err := c.Probe(t.Context(), "127.0.0.1:1"); !errors.Is(err, errNoSlots) {
		t.Errorf("Probe of a server elsewhere: %v, want %v", err, errNoSlots)
	}

	dead := servers.Nodes()[0]
	if err := dead.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f, ok := errors.AsType[*failover.Error](c.Probe(t.Context(), dead.Addr())); !ok || f.Class != failover.NeverRan {
		t.Errorf("Probe of a server that was killed: %v", f)
	}
}
