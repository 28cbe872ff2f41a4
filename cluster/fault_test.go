package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

func TestDoWaitsForARefusalToPass(t *testing.T) {
	for _, refusal := range []string{
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"CLUSTERDOWN Hash slot not served",
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"READONLY You can't write against a read only replica.",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"ERR max number of clients reached",
	} {
		server := newFake(t, func(call int64, _ string) string {
			if call <= 3 {
				return "-" + refusal + "\r\n"
			}
			return granted()
		})
		do(t, server.client(t, Options{Timeout: patient}), take(many, "key"))
		if n := server.calls.Load(); n != 4 {
			t.Errorf("refused 3 times with %q: sent %d times, want 4", refusal, n)
		}
	}
}

func TestDoDoesNotWaitForWhatLasts(t *testing.T) {
	for _, refusal := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Errors writing to the AOF file: No space left on device",
		"NOREPLICAS Not enough good replicas to write.",
	} {
		server := newFake(t, func(int64, string) string { return "-" + refusal + "\r\n" })
		c := server.client(t, Options{Timeout: patient})
		f := wantError(t.Context(), t, c, take(many, "key"), failover.NeverRan)
		if n := server.calls.Load(); n != 1 || f.Shard != server.addr() {
			t.Errorf("refused with %q: sent %d times, error %v; want 1 and an error that names %s", refusal, n, f, server.addr())
		}
	}
}

func TestDoDoesNotWaitWhereItMayGoElsewhere(t *testing.T) {
	server := newFake(t, func(int64, string) string { return "-CLUSTERDOWN Hash slot not served\r\n" })
	call := take(many, "key")
	call.Elsewhere = true
	f := wantError(t.Context(), t, server.client(t, Options{Timeout: patient}), call, failover.NeverRan)
	if n := server.calls.Load(); n != 1 || f.Shard != server.addr() {
		t.Errorf("sent %d times, error %v; want 1 and an error that names %s", n, f, server.addr())
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := newFake(t, func(int64, string) string { return "-LOADING Redis is loading the dataset in memory\r\n" })
	c := server.client(t, Options{Timeout: patient})
	var read atomic.Int64
	afterEach(c.rdb, func() {
		if read.Add(1) == 3 {
			cancel()
		}
	})
	f := wantError(ctx, t, c, take(many, "key"), failover.NeverRan)
	if n := server.calls.Load(); n != 3 || !hasCode(f, "LOADING") {
		t.Errorf("sent %d times, %v; want 3 and the last refusal", n, f)
	}
}

func TestTimeoutBoundsAContextWithoutADeadline(t *testing.T) {
	c := &Client{opts: Options{}.filled()}
	far, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, _ := far.Deadline()
	if got := c.deadline(far); got != want {
		t.Errorf("a context with a deadline at %v got one at %v", want, got)
	}
	const timeout = 50 * time.Millisecond
	latest := time.Now().Add(timeout + time.Minute)
	if got := c.deadline(context.Background()); got.After(latest) {
		t.Errorf("a context without a deadline got %v, want one %v from now", got, timeout)
	}
}

func TestTheEarlierDeadlineHolds(t *testing.T) {
	server := silent(t)
	c := server.client(t, Options{})
	early, late := time.Now().Add(time.Millisecond), time.Now().Add(patient)
	for _, deadlines := range [][2]time.Time{{early, late}, {late, early}} {
		ctx, cancel := context.WithDeadline(t.Context(), deadlines[0])
		defer cancel()
		if _, err := c.DoUntil(ctx, deadlines[1], take(many, "key")); !isLate(err) {
			t.Errorf("DoUntil = %v, want that it is late", err)
		}
	}
}

func TestALostConnectionIsUnknownWhateverCameBefore(t *testing.T) {
	server := newFake(t, func(call int64, name string) string {
		switch {
		case call == 1:
			return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
		case name == "evalsha":
			return "-NOSCRIPT No matching script.\r\n"
		default:
			return ""
		}
	})
	f := wantError(t.Context(), t, server.client(t, Options{Timeout: patient}), take(many, "key"), failover.Unknown)
	if n := server.calls.Load(); n != 3 || !errors.Is(f, io.EOF) {
		t.Errorf("sent %d times, %v; want EVALSHA twice, EVAL once, and %v", n, f, io.EOF)
	}
}

func TestAClockThatJumpsIsNotFollowedForEver(t *testing.T) {
	server := newFake(t, func(call int64, _ string) string { return doubles(0, float64(call*hour), scripts.OtherWindow) })
	f := wantError(t.Context(), t, server.client(t, Options{Timeout: patient}), take(hourly, "key"), failover.NeverRan)
	if n := server.calls.Load(); n != windowTries || !errors.Is(f, ErrWindow) {
		t.Errorf("sent %d times, %v; want %d and %v", n, f, windowTries, ErrWindow)
	}
}

func TestAReplyThatNoScriptSendsIsAnError(t *testing.T) {
	server := newFake(t, func(int64, string) string { return bulk("x") })
	f := wantError(t.Context(), t, server.client(t, Options{Timeout: patient}), take(many, "key"), failover.Configuration)
	if _, ok := errors.AsType[*scripts.ReplyError](f); !ok {
		t.Errorf("Do = %v, want a *scripts.ReplyError", f)
	}
}

func TestAServerThatIsTooOldIsNamed(t *testing.T) {
	server := newFake(t, func(_ int64, name string) string {
		if name == "evalsha" {
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		}
		return "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#' \r\n"
	})
	f := wantError(t.Context(), t, server.client(t, Options{Timeout: patient}), take(many, "key"), failover.Configuration)
	if e, ok := errors.AsType[*VersionError](f); !ok || e.Version != "6.0.16" || e.Shard != server.addr() {
		t.Errorf("Do = %v, want a *VersionError of 6.0.16 at %s", f, server.addr())
	}
}

// TestAnOldServerIsNamed runs where REDISTEST_SERVER_OLD names a server older
// than Redis 7.
func TestAnOldServerIsNamed(t *testing.T) {
	old := os.Getenv("REDISTEST_SERVER_OLD")
	if old == "" {
		t.Skip("REDISTEST_SERVER_OLD names no server")
	}
	c := newTestClient(t, redistest.Start(t, redistest.Options{Shards: 1, Server: old}), nil)
	f := wantError(t.Context(), t, c, take(many, "key"), failover.Configuration)
	if e, ok := errors.AsType[*VersionError](f); !ok || e.Version == "" {
		t.Errorf("Do = %v, want a *VersionError that names the version", f)
	}
}

func TestWhatSomebodyMustChangeIsAnErrorOfConfiguration(t *testing.T) {
	servers := redistest.Shared(t)
	for _, n := range servers.Nodes() {
		run(t, n, "ACL", "SETUSER", "nobody", "on", ">secret", "~*", "+cluster|slots")
		run(t, n, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+evalsha", "+eval", "+cluster|slots", "+get", "+time")
	}
	as := func(user, password string) func(*redis.ClusterOptions) {
		return func(o *redis.ClusterOptions) { o.Username, o.Password = user, password }
	}
	list := redistest.Prefix(t)
	node, _ := owner(t, servers, int(keys.Slot(list)))
	run(t, node, "RPUSH", list, "x")
	tests := []struct {
		name   string
		client func(*redis.ClusterOptions)
		key    string
		text   string // of the server
	}{
		{"no permission for EVALSHA", as("nobody", "secret"), redistest.Prefix(t), "NOPERM"},
		{"no permission for SET", as("reader", "secret"), redistest.Prefix(t), ""},
		{"wrong password", as("reader", "wrong"), redistest.Prefix(t), "WRONGPASS"},
		{"a list in the key", nil, list, "WRONGTYPE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := wantError(t.Context(), t, newTestClient(t, servers, tt.client), take(many, tt.key), failover.Configuration)
			if tt.text != "" && !hasCode(f, tt.text) {
				t.Errorf("Do = %v, want %s", f, tt.text)
			}
		})
	}
}

func TestASingleClientOfAClusterIsAnErrorOfConfiguration(t *testing.T) {
	servers := redistest.Shared(t)
	noLeaks(t)
	key := tagged(t)
	_, other := owner(t, servers, int(keys.Slot(key)))
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: other.Addr(), ContextTimeoutEnabled: true}))
	f := wantError(t.Context(), t, wrap(t, rdb), take(many, key), failover.Configuration)
	if !errors.Is(f, errClustered) {
		t.Errorf("Do = %v, want %v", f, errClustered)
	}
}

// errLimited is what a hook or a redis.Limiter of the user's refuses with.
var errLimited = errors.New("refused before it was sent")

// refuser refuses everything, and ends the context at the third time. What it
// says then is last, if that isn't nil.
type refuser struct {
	redis.Limiter
	times  atomic.Int64
	cancel context.CancelFunc
	last   error
	all    error // what it always says, if set
}

func (r *refuser) Allow() error {
	if r.all != nil {
		return r.all
	}
	if r.times.Add(1) == 3 {
		r.cancel()
		if r.last != nil {
			return r.last
		}
	}
	return errLimited
}

func (r *refuser) ReportResult(error) {}

func TestWhatTheClientRefusesNeverRan(t *testing.T) {
	noLeaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	limiter := &refuser{cancel: cancel}
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Limiter: limiter}))
	if f := wantError(ctx, t, wrap(t, rdb), take(many, "key"), failover.NeverRan); !errors.Is(f, errLimited) {
		t.Errorf("Do = %v, want %v", f, errLimited)
	}
	if n := limiter.times.Load(); n != 3 {
		t.Errorf("tried %d times, want 3: until the context ended", n)
	}
}

// A context may end between the wait after a refusal and the next call's way to
// the wire: what the caller hears is the refusal all the same.
func TestTheLastRefusalIsToldHoweverTheContextEnds(t *testing.T) {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		noLeaks(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Limiter: &refuser{cancel: cancel, last: end}}))
		if f := wantError(ctx, t, wrap(t, rdb), take(many, "key"), failover.NeverRan); !errors.Is(f, errLimited) {
			t.Errorf("refused twice, then %v: Do = %v, want %v", end, f, errLimited)
		}
	}
}

func TestDoDoesNotWaitForAClosedClient(t *testing.T) {
	if waitingHelps(&failover.Error{Class: failover.NeverRan, Err: redis.ErrClosed}) {
		t.Error("waits for a closed client to open")
	}
}

func TestDoOfAClusterThatIsNotUpYet(t *testing.T) {
	servers := redistest.Start(t, redistest.Options{Shards: 1})
	node := servers.Nodes()[0]
	if err := node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, servers, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if f := wantError(ctx, t, c, take(many, "key"), failover.NeverRan); f.Shard != "" {
		t.Errorf("Do = %v, want no shard: none is known", f)
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, c, take(many, "key")) // waits until the node serves its slots
}

func TestDoWaitsForASlotThatNobodyServes(t *testing.T) {
	servers := redistest.Start(t, redistest.Options{Shards: 1})
	node := servers.Nodes()[0]
	c := newTestClient(t, servers, nil)
	slot := keys.Slot("key")
	do(t, c, take(many, "key"))
	run(t, node, "CLUSTER", "DELSLOTS", slot)

	answered := make(chan error, 1)
	go func() {
		_, err := c.Do(t.Context(), take(many, "key"))
		answered <- err
	}()
	for redistest.Errors(t, servers)["CLUSTERDOWN"] == 0 {
		select {
		case err := <-answered:
			t.Fatalf("Do = %v before anybody served the slot", err)
		default:
		}
	}
	run(t, node, "CLUSTER", "ADDSLOTS", slot)
	if err := <-answered; err != nil {
		t.Errorf("Do = %v, want an answer once the slot is served", err)
	}
	if got := used(t, c, many, "key"); got != 2 {
		t.Errorf("%d units used, want 2", got)
	}
}

func TestOneCallOutwaitsAPromotion(t *testing.T) {
	servers := redistest.Start(t, redistest.Options{Replicas: 1, NodeTimeout: 500 * time.Millisecond})
	c := newTestClient(t, servers, nil)
	do(t, c, take(many, "key"))
	primary, _ := owner(t, servers, int(keys.Slot("key")))
	if err := primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, c, take(many, "key"))
}

func TestUnknownWrapsWhatBrokeTheConnection(t *testing.T) {
	key := tagged(t)
	c, proxy := throughProxy(t, key)
	proxy.DropReplies(1, relay.ThenClose, relay.Commands("evalsha"))
	if f := wantError(t.Context(), t, c, take(many, key), failover.Unknown); !errors.Is(f, io.EOF) {
		t.Errorf("Do = %v, want %v", f, io.EOF)
	}
}
