package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/scripts"
)

// gathered makes the calls so that they go out as one pipeline, and returns
// their errors. The first call of server must be held until the returned
// function is called: it is "held", which no call may be named.
type gathered struct {
	t       testing.TB
	client  *Client
	shard   *shard
	calling sync.WaitGroup
	errs    map[string]error
	mu      sync.Mutex
}

// gather makes a call that occupies the only pipeline, then the others, and
// returns once all of them wait for the next.
func gather(ctx context.Context, t testing.TB, c *Client, s *shard, names ...string) *gathered {
	t.Helper()
	g := &gathered{t: t, client: c, shard: s, errs: map[string]error{}}
	g.call(ctx, "held")
	eventually(t, "a call under way", s.hasTaken)
	for i, name := range names {
		g.call(ctx, name)
		eventually(t, "a queue", func() bool { return s.waiting() == i+1 })
	}
	return g
}

func (g *gathered) call(ctx context.Context, name string) {
	g.calling.Go(func() {
		reply, err := g.client.Do(ctx, take(many, name))
		if err == nil && reply.Granted != 1 {
			err = fmt.Errorf("granted %d", reply.Granted)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.errs[name] = err
	})
}

// results waits for all calls.
func (g *gathered) results() map[string]error {
	g.calling.Wait()
	return g.errs
}

func (s *shard) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.length
}

// hasTaken reports whether a call is under way and none waits.
func (s *shard) hasTaken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busyLocked() && s.queue.length == 0
}

func (s *shard) runners() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *shard) underWay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busyLocked()
}

// eventually waits until what a test needs has come about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for !is() {
		if t.Context().Err() != nil {
			t.Fatalf("there never was %s", what)
		}
		runtime.Gosched()
	}
}

// shardOf returns the shard of a fake.
func shardOf(t testing.TB, c *Client) *shard {
	t.Helper()
	s, err := c.primary(t.Context(), time.Now().Add(patient), "any")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// one pipeline at a time, for as long as it takes.
var single = Options{Timeout: patient, Batch: Batch{InFlight: 1}}

// holding replies as a fake that holds the call of "held" until release is
// closed.
func holding(release <-chan struct{}, scripts func(call int64, command []string) string) func(int64, []string) string {
	return func(call int64, command []string) string {
		if command[3] == "held" {
			<-release
			return granted()
		}
		return scripts(call, command)
	}
}

func TestEachCallOfABatchGetsItsOwn(t *testing.T) {
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			other := newFakeOf(t, func(_ int64, command []string) string {
				if command[3] == "moved to a list" {
					return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
				}
				return granted()
			})
			release := make(chan struct{})
			var server *fake
			server = newFakeOf(t, holding(release, func(_ int64, command []string) string {
				again := server.ran(command[3]) > 1
				switch key := command[3]; {
				case key == "moved", key == "moved to a list":
					return fmt.Sprintf("-MOVED 1 %s\r\n", other.addr())
				case key == "ask":
					return fmt.Sprintf("-ASK 1 %s\r\n", other.addr())
				case key == "noscript" && command[0] == "evalsha":
					return "-NOSCRIPT No matching script.\r\n"
				case key == "tryagain" && !again:
					return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
				case key == "readonly" && !again:
					return "-READONLY You can't write against a read only replica.\r\n"
				case key == "loading" && !again:
					return "-LOADING Redis is loading the dataset in memory\r\n"
				case key == "clusterdown" && !again:
					return "-CLUSTERDOWN The cluster is down\r\n"
				case key == "list":
					return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
				case key == "oom":
					return "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
				default:
					return granted()
				}
			}))
			other.owner = server.addr()
			c := connect(server, t, single)
			want := map[string]int{ // how often each is sent to server
				"moved": 1, "moved to a list": 1, "ask": 1, "noscript": 2, "tryagain": 2, "readonly": 2, "loading": 2,
				"clusterdown": 2, "list": 1, "oom": 1, "plain": 1, "held": 1,
			}
			var names []string
			for name := range want {
				if name != "held" {
					names = append(names, name)
				}
			}
			g := gather(t.Context(), t, c, shardOf(t, c), names...)
			close(release)
			for name, err := range g.results() {
				f, _ := errors.AsType[*failover.Error](err)
				switch {
				case name == "list" || name == "moved to a list":
					at := server.addr()
					if name != "list" {
						at = other.addr()
					}
					if f == nil || f.Class != failover.Configuration || !hasCode(f, "WRONGTYPE") || f.Shard != at {
						t.Errorf("%s: %v, want WRONGTYPE of %s", name, err, at)
					}
				case name == "oom":
					if f == nil || f.Class != failover.NeverRan || !hasCode(f, "OOM") {
						t.Errorf("%s: %v, want OOM", name, err)
					}
				case err != nil:
					t.Errorf("%s: %v, want an answer", name, err)
				}
				if sent, most := server.ran(name), want[name]; sent < most || sent > most+1 { // a node not known is asked for from the start
					t.Errorf("%s: sent %d times to the first server, want %d", name, sent, most)
				}
			}
			for _, name := range []string{"moved", "ask", "moved to a list"} {
				if n := other.ran(name); n != 1 {
					t.Errorf("%s: sent %d times to where it was redirected, want 1", name, n)
				}
			}
		})
	}
}

// connects are the two kinds of client: with deadlines that interrupt sockets,
// and without.
var connects = map[string]func(*fake, testing.TB, Options) *Client{
	"tuned": (*fake).client,
	"plain": (*fake).plainClient,
}

func TestALostConnectionAnswersWhatCameBefore(t *testing.T) {
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			server := newFakeOf(t, holding(release, func(_ int64, command []string) string {
				if command[3] == "lost" {
					return ""
				}
				return granted()
			}))
			c := connect(server, t, single)
			before, after := []string{"a", "b", "c", "d"}, []string{"lost", "e", "f"}
			g := gather(t.Context(), t, c, shardOf(t, c), append(before, after...)...)
			close(release)
			errs := g.results()
			for _, name := range before {
				if errs[name] != nil {
					t.Errorf("%s, answered before the connection was lost: %v", name, errs[name])
				}
			}
			for _, name := range after {
				f, ok := errors.AsType[*failover.Error](errs[name])
				if !ok || f.Class != failover.Unknown || !errors.Is(f, io.EOF) {
					t.Errorf("%s: %v, want %q and %v", name, errs[name], failover.Unknown, io.EOF)
				}
			}
			for name := range errs {
				if n := server.ran(name); n > 1 {
					t.Errorf("%s was sent %d times", name, n)
				}
			}
		})
	}
}

func TestABatchHasAtMostCalls(t *testing.T) {
	release := make(chan struct{})
	server := newFakeOf(t, holding(release, func(int64, []string) string { return granted() }))
	c := server.client(t, Options{Timeout: patient, Batch: Batch{Calls: 3, InFlight: 1}})
	var sizes []int
	node := shardOf(t, c).node
	node.AddHook(onPipeline(func(cmds []redis.Cmder) {
		if cmds[0].Name() == "evalsha" {
			sizes = append(sizes, len(cmds)) // by the one runner that there is
		}
	}))
	g := gather(t.Context(), t, c, shardOf(t, c), "a", "b", "c", "d", "e", "f", "g")
	close(release)
	g.results()
	if got, want := fmt.Sprint(sizes), "[1 3 3 1]"; got != want {
		t.Errorf("pipelines of %v calls, want %v", got, want)
	}
}

// onPipeline is a hook that sees pipelines before they are sent.
type onPipeline func(cmds []redis.Cmder)

func (onPipeline) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (onPipeline) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (see onPipeline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		see(cmds)
		return next(ctx, cmds)
	}
}

func TestACallerAloneSendsItsOwnWhereDeadlinesBind(t *testing.T) {
	for name, connect := range connects {
		server := newFakeOf(t, func(int64, []string) string { return granted() })
		c := connect(server, t, Options{Timeout: patient})
		pipelines := 0
		shardOf(t, c).node.AddHook(onPipeline(func(cmds []redis.Cmder) {
			if cmds[0].Name() == "evalsha" {
				pipelines++
			}
		}))
		for range 3 {
			if _, err := c.Do(context.Background(), take(many, "key")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "an idle shard", func() bool { return !shardOf(t, c).underWay() })
		}
		if want := map[string]int{"tuned": 0, "plain": 3}[name]; pipelines != want {
			t.Errorf("%s: 3 calls by a caller alone took %d pipelines, want %d", name, pipelines, want)
		}
	}
}

func TestManyCallersChargeExactly(t *testing.T) {
	servers := redistest.Shared(t)
	for name, binds := range map[string]bool{"deadlines bind": true, "deadlines don't bind": false} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, servers, func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = binds })
			eachKind(t, func(t *testing.T, plan *scripts.Plan) {
				const subjects, callers, each = 8, 64, 12
				tag := tagged(t)
				var calling sync.WaitGroup
				granted := make([]int64, callers)
				for caller := range callers {
					calling.Go(func() {
						for range each {
							reply, err := c.Do(t.Context(), take(plan, keyOf(tag, caller%subjects)))
							if err != nil {
								t.Error(err)
							}
							granted[caller] += reply.Granted
						}
					})
				}
				calling.Wait()
				var total int64
				for _, n := range granted {
					total += n
				}
				if total != 10*subjects {
					t.Errorf("%d callers on %d subjects of 10 units: %d granted, want %d", callers, subjects, total, 10*subjects)
				}
			})
		})
	}
}
