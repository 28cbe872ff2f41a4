package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// silent returns a fake that answers no script until the test ends.
func silent(t testing.TB) *fake {
	ended := make(chan struct{})
	server := newFakeOf(t, func(int64, []string) string { <-ended; return "" })
	t.Cleanup(func() { close(ended) })
	return server
}

// TestACallerWaitsNoLongerThanItsDeadline would never end if one did: the
// client has no timeouts of its own, and the primary hangs until all calls have
// returned.
func TestACallerWaitsNoLongerThanItsDeadline(t *testing.T) {
	servers := redistest.Shared(t)
	for name, binds := range map[string]bool{"deadlines bind": true, "deadlines don't bind": false} {
		t.Run(name, func(t *testing.T) {
			proxies := redistest.NewProxies(t, servers)
			c := newTestClient(t, servers, func(o *redis.ClusterOptions) {
				o.Dialer = proxies.Dial
				o.ContextTimeoutEnabled = binds
				o.ReadTimeout, o.WriteTimeout = -1, -1
			})
			eachKind(t, func(t *testing.T, plan *scripts.Plan) {
				key := tagged(t)
				charge := take(plan, key)
				reply := do(t, c, charge)
				node, _ := owner(t, servers, int(keys.Slot(key)))
				proxies[node.Addr()].BlackHole()
				for _, call := range []*scripts.Call{
					take(plan, key),
					{Plan: plan, Op: scripts.Take, Key: key, Cost: 1, Count: 5, Nonce: 1},
					{Plan: plan, Op: scripts.Charge, Key: key, Cost: 1, Count: 1, Nonce: 2},
					{Plan: plan, Op: scripts.Peek, Key: key},
					{Plan: plan, Op: scripts.Reset, Key: key},
					refund(charge, reply),
				} {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
					_, err := c.Do(ctx, call)
					f, ok := errors.AsType[*failover.Error](err)
					if !ok || !f.Class.Unavailable() || !isLate(err) {
						t.Errorf("operation %d on a primary that hangs: %v, want that it is late", call.Op, err)
					}
					cancel()
				}
				proxies[node.Addr()].Restore()
			})
		})
	}
}

func TestACallerWaitsNoLongerForTheFirstTopology(t *testing.T) {
	servers := redistest.Shared(t)
	proxies := redistest.NewProxies(t, servers)
	for _, p := range proxies {
		p.BlackHole()
	}
	c := newTestClient(t, servers, func(o *redis.ClusterOptions) {
		o.Dialer = proxies.Dial
		o.ContextTimeoutEnabled = false
		o.ReadTimeout, o.WriteTimeout = -1, -1
	})
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if f := wantError(ctx, t, c, take(many, "key"), failover.NeverRan); !isLate(f) {
			t.Errorf("Do = %v, want that it is late", f)
		}
		cancel()
	}
	for _, p := range proxies {
		p.Restore()
	}
	do(t, c, take(many, tagged(t)))
}

func TestCallsThatTimeOutLeaveNothingBehind(t *testing.T) {
	const calls, callers = 100_000, 200
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			server := silent(t)
			c := connect(server, t, Options{Timeout: time.Millisecond})
			shard := shardOf(t, c)
			var unknown, neverRan atomic.Int64
			var calling sync.WaitGroup
			for range callers {
				calling.Go(func() {
					for range calls / callers {
						_, err := c.Do(context.Background(), take(many, "key"))
						switch f, _ := errors.AsType[*failover.Error](err); {
						case f != nil && f.Class == failover.Unknown:
							unknown.Add(1)
						case f != nil && f.Class == failover.NeverRan:
							neverRan.Add(1)
						}
					}
				})
			}
			calling.Wait()
			if n := unknown.Load() + neverRan.Load(); n != calls {
				t.Errorf("%d of %d calls timed out, want all", n, calls)
			}
			if n := shard.waiting(); n != 0 {
				t.Errorf("%d calls left in the queue, want none", n)
			}
			most := c.opts.Batch.InFlight
			if n := shard.runners(); n > most {
				t.Errorf("%d runners left, want at most %d", n, most)
			}
			if n := shard.node.PoolStats().TotalConns; int(n) > most+2 { // one for a caller alone, one that found the topology
				t.Errorf("%d connections left, want at most %d", n, most+2)
			}
			t.Logf("%d unknown, %d connections opened", unknown.Load(), server.dialed())
			if int64(server.ran("key")) > unknown.Load() {
				t.Errorf("%d calls reached the server, %d were reported unknown", server.ran("key"), unknown.Load())
			}
		})
	}
}

func TestAQueuedCallThatEndsIsNeverSent(t *testing.T) {
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			server := newFakeOf(t, holding(release, func(int64, []string) string { return granted() }))
			c := connect(server, t, single)
			g := gather(t.Context(), t, c, shardOf(t, c), "stays")

			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if f := wantError(ctx, t, c, take(many, "late"), failover.NeverRan); !isLate(f) {
				t.Errorf("Do = %v, want that it is late", f)
			}
			ctx, cancel = context.WithCancel(t.Context())
			var leaving sync.WaitGroup
			leaving.Go(func() {
				if _, err := c.Do(ctx, take(many, "cancelled")); !errors.Is(err, context.Canceled) {
					t.Errorf("Do = %v, want %v", err, context.Canceled)
				}
			})
			eventually(t, "a queue of two", func() bool { return shardOf(t, c).waiting() == 2 })
			cancel()
			leaving.Wait()

			close(release)
			for name, err := range g.results() {
				if err != nil || server.ran(name) != 1 {
					t.Errorf("%s: %v, sent %d times; want an answer", name, err, server.ran(name))
				}
			}
			if n := server.ran("late") + server.ran("cancelled"); n != 0 {
				t.Errorf("%d of the calls were sent that had left, want none", n)
			}
		})
	}
}

func TestACancelledCallerLeavesWhatWasSent(t *testing.T) {
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			server := silent(t)
			c := connect(server, t, Options{Timeout: patient})
			ctx, cancel := context.WithCancel(t.Context())
			var calling sync.WaitGroup
			calling.Go(func() {
				_, err := c.Do(ctx, take(many, "key"))
				if f, ok := errors.AsType[*failover.Error](err); !ok || f.Class != failover.Unknown || !errors.Is(f, context.Canceled) {
					t.Errorf("Do = %v, want an error of class %q and %v", err, failover.Unknown, context.Canceled)
				}
			})
			eventually(t, "a call at the server", func() bool { return server.ran("key") == 1 })
			cancel()
			calling.Wait()
		})
	}
}

// TestWhoLeavesBeforeTheConnectionIsThereIsNotCharged lets a caller leave whose
// command a runner has taken, and waits for the connection with.
func TestWhoLeavesBeforeTheConnectionIsThereIsNotCharged(t *testing.T) {
	greet, release := make(chan struct{}), make(chan struct{})
	var greeted atomic.Int64
	server := newFakeOf(t, func(int64, []string) string { return granted() })
	server.hello = func() {
		if greeted.Add(1) == 2 { // the first is for the topology, the second for a pipeline
			close(greet)
			<-release
		}
	}
	c := server.plainClient(t, Options{Timeout: patient})
	s := shardOf(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	calling.Go(func() {
		_, err := c.Do(ctx, take(many, "key"))
		if f, ok := errors.AsType[*failover.Error](err); !ok || f.Class != failover.NeverRan {
			t.Errorf("Do = %v, want an error of class %q", err, failover.NeverRan)
		}
	})
	<-greet
	cancel()
	calling.Wait()
	close(release)
	eventually(t, "an idle shard", func() bool { return !s.underWay() })
	if n := server.ran("key"); n != 0 {
		t.Errorf("a script ran %d times for a caller that was told it never would", n)
	}
}

// TestNoServerRunsASpoiltCommand shows that the fake above does as servers do.
func TestNoServerRunsASpoiltCommand(t *testing.T) {
	servers := redistest.Shared(t)
	c := newTestClient(t, servers, asLimiter(t, servers))
	key := "rl:" + tagged(t)
	do(t, c, take(many, key))
	cmd := newCommand(take(many, key), key, false)
	if got := cmd.abandon(errLate); got.sent || !errors.Is(got.err, errLate) {
		t.Errorf("abandon of a command that waits = %+v, want %v", got, errLate)
	}
	s, err := c.primary(t.Context(), time.Now().Add(patient), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.node.Process(t.Context(), cmd); replyText(err) == "" {
		t.Errorf("a spoilt command: %v, want that the server refuses it", err)
	}
	if got := used(t, c, many, key); got != 1 {
		t.Errorf("%d units charged, want 1", got)
	}
}

func TestAFullQueueRefusesAtOnce(t *testing.T) {
	release := make(chan struct{})
	server := newFakeOf(t, holding(release, func(int64, []string) string { return granted() }))
	c := server.client(t, Options{Timeout: patient, Batch: Batch{InFlight: 1, Queue: 2}})
	g := gather(t.Context(), t, c, shardOf(t, c), "a", "b")
	f := wantError(t.Context(), t, c, take(many, "c"), failover.NeverRan) // while nothing else is answered
	if !errors.Is(f, ErrQueueFull) || f.Shard != server.addr() {
		t.Errorf("Do = %v, want %v of %s", f, ErrQueueFull, server.addr())
	}
	close(release)
	for name, err := range g.results() {
		if err != nil {
			t.Errorf("%s: %v, want an answer", name, err)
		}
	}
}

// isLate reports whether err says so to whoever asks for a context's end, and
// to whoever asks for a socket's.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && errors.Is(err, os.ErrDeadlineExceeded)
}

// TestLateIsTheSameWhoeverNotices lets the client fail as it does when the
// context's end is noticed first, or the socket's, or a dial's.
func TestLateIsTheSameWhoeverNotices(t *testing.T) {
	if !isLate(errLate) || errors.Is(errLate, context.Canceled) {
		t.Errorf("%v is not late alone", errLate)
	}
	dial, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	var dialer net.Dialer
	_, undialled := dialer.DialContext(dial, "tcp", "127.0.0.1:1")
	for _, noticed := range []error{context.DeadlineExceeded, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, undialled} {
		noLeaks(t)
		rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Limiter: &refuser{all: noticed}}))
		call := take(many, "key")
		call.Elsewhere = true // so that nothing waits
		f := wantError(t.Context(), t, wrap(t, rdb), call, failover.NeverRan)
		if !isLate(f) || !errors.Is(f, noticed) || !strings.Contains(f.Error(), noticed.Error()) {
			t.Errorf("the client said %v: Do = %v, want that it is late, and why", noticed, f)
		}
	}
}

// occupied returns a client of a fake for which somebody else has the only
// connection that there can be, until release is called.
func occupied(t *testing.T, binds bool) (server *fake, c *Client, release func()) {
	t.Helper()
	asked, answer := make(chan struct{}), make(chan struct{})
	server = newFakeOf(t, func(int64, []string) string { return granted() })
	server.get = func(string) string {
		close(asked)
		<-answer
		return "$-1\r\n"
	}
	noLeaks(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{server.addr()}, ContextTimeoutEnabled: binds,
		PoolSize: 1, PipelinePoolSize: -1, PoolTimeout: time.Hour, ReadTimeout: time.Hour,
	})
	closing.AtEnd(t, rdb)
	c = wrap(t, rdb)
	node := shardOf(t, c).node
	var asking sync.WaitGroup
	asking.Go(func() {
		if err := node.Get(t.Context(), "key").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("GET = %v, want %v", err, redis.Nil)
		}
	})
	<-asked
	return server, c, func() {
		close(answer)
		asking.Wait()
	}
}

// TestNobodyWaitsForAConnectionForLonger would take as long as the test may if
// somebody did: a caller who sends alone, or a runner with its batch.
func TestNobodyWaitsForAConnectionForLonger(t *testing.T) {
	for name, alone := range map[string]bool{"a call alone": true, "a batch": false} {
		t.Run(name, func(t *testing.T) {
			server, c, release := occupied(t, alone)
			s := shardOf(t, c)
			for _, timeout := range []time.Duration{20 * time.Millisecond, time.Millisecond, 5 * time.Millisecond} {
				deadline := time.Now().Add(timeout)
				_, err := c.DoUntil(context.Background(), deadline, take(many, "key"))
				f, ok := errors.AsType[*failover.Error](err)
				if !ok || f.Class != failover.NeverRan || !isLate(f) || time.Now().Before(deadline) {
					t.Errorf("DoUntil = %v, want an error of class %q at its deadline", err, failover.NeverRan)
				}
				eventually(t, "an idle shard", func() bool { return !s.underWay() })
			}
			release()
			if _, err := c.DoUntil(context.Background(), time.Now().Add(patient), take(many, "key")); err != nil {
				t.Errorf("DoUntil = %v, want an answer once there is a connection", err)
			}
			if n := server.ran("key"); n != 1 {
				t.Errorf("%d calls reached the server, want 1", n)
			}
		})
	}
}

// TestCloseEndsABatchThatWaitsForAConnection would take an hour if it didn't.
func TestCloseEndsABatchThatWaitsForAConnection(t *testing.T) {
	server, c, release := occupied(t, false)
	s := shardOf(t, c)
	var calling sync.WaitGroup
	calling.Go(func() {
		_, err := c.DoUntil(context.Background(), time.Now().Add(time.Hour), take(many, "key"))
		if f, ok := errors.AsType[*failover.Error](err); !ok || f.Class != failover.NeverRan || !errors.Is(f, ErrClosed) {
			t.Errorf("DoUntil = %v, want %v", err, ErrClosed)
		}
	})
	eventually(t, "a batch", s.hasTaken)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	calling.Wait()
	release()
	if n := server.ran("key"); n != 0 {
		t.Errorf("%d calls reached the server, want none", n)
	}
}
