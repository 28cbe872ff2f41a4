package shardlimit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/crowd"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/limitertest"
)

func TestMain(m *testing.M) {
	crowd.Main() // does not return in a process that is an instance
	redistest.Main(m)
}

// patient is long enough for whatever is meant to succeed on a busy machine.
const patient = time.Minute

func TestClusterKeepsThePromises(t *testing.T) {
	limitertest.Run(t, newClustered(t))
}

func TestClusterPassesItsShareOfASteadyLoad(t *testing.T) {
	limitertest.RoundRobin(t, newClustered(t), 10)
}

// newClustered returns a function that makes Limiters on the shared cluster, each
// with keys of its own and under a clock that can be set.
func newClustered(t *testing.T) limitertest.NewFunc {
	t.Helper()
	rdb := client(t)
	return func(t *testing.T) (limitertest.Limiter, func(time.Time)) {
		l := clustered(t, rdb)
		return l, setClock(l)
	}
}

func client(t *testing.T) *redis.ClusterClient {
	t.Helper()
	return redistest.Client(t, redistest.Shared(t), func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true })
}

// clustered returns a Limiter with keys of its own.
func clustered(t *testing.T, rdb redis.UniversalClient) *shardlimit.Limiter {
	t.Helper()
	return newOn(t, rdb, shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: patient})
}

func newOn(t *testing.T, rdb redis.UniversalClient, cfg shardlimit.Config) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.New(rdb, cfg)
	return closing.Opened(t, l, err)
}

// Every key ends, not much later than what it says can matter, and not before.
func TestClusterKeysEnd(t *testing.T) {
	const period = 100 * time.Second
	for name, limits := range kinds(5, period) {
		t.Run(name, func(t *testing.T) {
			rdb := client(t)
			prefix := redistest.Prefix(t)
			l := newOn(t, rdb, shardlimit.Config{Prefix: prefix, Timeout: patient})
			p := policy(t, limits...)
			slack := time.Second
			if name == "fixed_window" || name == "several" {
				slack += 10 * time.Second // for a clock that steps back
			}
			var longest time.Duration // that anything used is still used
			for _, c := range callsOf(t, l, p) {
				before := time.Now()
				used := c.make().ResetAfter
				longest = max(longest, used)
				found := ttls(t, rdb, prefix)
				for key, ttl := range found {
					if ttl <= 0 || ttl > longest+slack {
						t.Errorf("after %s: %s lives for %v, where all is unused after %v", c.name, key, ttl, longest)
					}
					if ttl+time.Since(before) < used-time.Millisecond { // which PTTL rounds to
						t.Errorf("after %s: %s ends after %v, where some is used for %v", c.name, key, ttl, used)
					}
				}
				if len(found) > 1 || used > 0 && len(found) == 0 {
					t.Errorf("after %s: %d keys, where all is unused after %v", c.name, len(found), used)
				}
			}
		})
	}
}

// call is one call, of which errors are noted.
type call struct {
	name string
	make func() shardlimit.Result
}

// callsOf returns a call of each kind, some of which are denied.
func callsOf(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy) []call {
	t.Helper()
	const subject = "user:42"
	ctx, result := t.Context(), result(t)
	var last shardlimit.Result
	calls := []call{
		{"Peek", func() shardlimit.Result { return result(l.Peek(ctx, p, subject)) }},
		{"Allow", func() shardlimit.Result { return result(l.Allow(ctx, p, subject)) }},
		{"AllowN", func() shardlimit.Result { return result(l.AllowN(ctx, p, subject, 3)) }},
		{"AllowN, denied", func() shardlimit.Result { return result(l.AllowN(ctx, p, subject, 5)) }},
		{"AllowAtMost", func() shardlimit.Result { last = result(l.AllowAtMost(ctx, p, subject, 9)); return last }},
		{"Refund", func() shardlimit.Result { return result(shardlimit.Result{}, l.Refund(ctx, last)) }},
		{"Reset", func() shardlimit.Result { return result(shardlimit.Result{}, l.Reset(ctx, p, subject)) }},
		{"Allow, after Reset", func() shardlimit.Result { return result(l.Allow(ctx, p, subject)) }},
		{"AllowAll", func() shardlimit.Result { return result(only(l.AllowAll(ctx, ask(p, subject)))) }},
		{"AllowEach", func() shardlimit.Result {
			o := l.AllowEach(ctx, ask(p, subject))[0]
			return result(o.Result, o.Err)
		}},
		{"Wait", func() shardlimit.Result { return result(shardlimit.Result{}, l.Wait(ctx, p, subject)) }},
	}
	if !slices.ContainsFunc(p.Limits(), func(l shardlimit.Limit) bool { return l.Algorithm == shardlimit.GCRA }) {
		calls = append(calls, call{"Charge", func() shardlimit.Result { return result(l.Charge(ctx, p, subject, 9)) }})
	}
	return calls
}

// only returns the one of the results.
func only(results []shardlimit.Result, err error) (shardlimit.Result, error) {
	if err != nil {
		return shardlimit.Result{}, err
	}
	return results[0], nil
}

// ttls returns how long each key that begins with prefix will live.
func ttls(t *testing.T, rdb *redis.ClusterClient, prefix string) map[string]time.Duration {
	t.Helper()
	var mu sync.Mutex
	found := map[string]time.Duration{}
	err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		scan := node.Scan(ctx, 0, prefix+":*", 1000).Iterator()
		for scan.Next(ctx) {
			ttl, err := node.PTTL(ctx, scan.Val()).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			found[scan.Val()] = ttl
			mu.Unlock()
		}
		return scan.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestClusterSpreadsSubjectsOverPrimaries(t *testing.T) {
	rdb := client(t)
	prefix := redistest.Prefix(t)
	l := newOn(t, rdb, shardlimit.Config{Prefix: prefix, Timeout: patient})
	p := policy(t, shardlimit.Per(5, long).WithAlgorithm(shardlimit.FixedWindow))
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 125 {
				subject := "user:" + string(rune('a'+w)) + strings.Repeat("x", i)
				if r := allow(t, l, p, subject); !r.Allowed || r.Remaining != 4 {
					t.Errorf("Allow(%s) = %+v", subject, r)
				}
			}
		})
	}
	all.Wait()
	if got := len(ttls(t, rdb, prefix)); got != 1000 {
		t.Errorf("%d keys, want 1000", got)
	}
	err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, prefix+":*").Result()
		if n := len(keys); n < 200 || n > 500 {
			t.Errorf("%s holds %d of 1000 keys", node.Options().Addr, n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestClusterKeepsSubjectsUnderAKeySecret(t *testing.T) {
	rdb := client(t)
	prefix := redistest.Prefix(t)
	secret := []byte("0123456789abcdef")
	l := newOn(t, rdb, shardlimit.Config{Prefix: prefix, Timeout: patient, SubjectKey: secret})
	secret[0] = 'x' // the Limiter has its own copy
	same := newOn(t, rdb, shardlimit.Config{Prefix: prefix, Timeout: patient, SubjectKey: []byte("0123456789abcdef")})
	p := policy(t, shardlimit.Per(5, long))

	allow(t, l, p, "192.0.2.1")
	if r := allow(t, same, p, "192.0.2.1"); r.Remaining != 3 {
		t.Errorf("under the same key %d remain, want 3", r.Remaining)
	}
	for key := range ttls(t, rdb, prefix) {
		if strings.Contains(key, "192.0.2.1") {
			t.Errorf("the subject is in the key %s", key)
		}
	}
}

func TestSingleServerThatHangs(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	rdb := singleClient(t, server)
	l := newOn(t, rdb, shardlimit.Config{})
	open := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "open", Limits: []shardlimit.Limit{shardlimit.Per(5, long)}})
	closed := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "closed", Limits: open.Limits(), OnFailure: shardlimit.FailClosed(), Timeout: 30 * time.Millisecond,
	})
	warm(t, l, open)
	if err := server.Hang(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := result(t)(l.AllowN(t.Context(), open, "user:42", 3))
	down, ok := errors.AsType[*shardlimit.UnavailableError](r.Failure)
	if !r.Allowed || r.Granted != 3 || r.Source != shardlimit.FromFallback || !ok || down.Shard != server.Addr() {
		t.Errorf("AllowN(3), fail open = %+v, want it allowed by the fallback", r)
	}
	r = allow(t, l, closed, "user:42")
	if r.Allowed || r.Granted != 0 || r.RetryAfter != 30*time.Millisecond || r.Failure == nil {
		t.Errorf("Allow, fail closed = %+v, want it denied for the timeout", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if r, err := l.Allow(ctx, closed, "user:42"); !errors.Is(err, context.DeadlineExceeded) || r != (shardlimit.Result{}) {
		t.Errorf("Allow by a caller who waits 1 ms = %+v, %v; want its own error", r, err)
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	warm(t, l, closed)
}

// TestNoMethodWaitsForAClientThatHangs would never end if one did: the client has
// no timeouts, and the server hangs until all have returned.
func TestNoMethodWaitsForAClientThatHangs(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	for name, binds := range map[string]bool{"deadlines bind": true, "deadlines don't bind": false} {
		t.Run(name, func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{
				Addr: server.Addr(), ContextTimeoutEnabled: binds, ReadTimeout: -1, WriteTimeout: -1,
			})
			l, err := shardlimit.New(rdb, shardlimit.Config{Timeout: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{shardlimit.Per(5, long)}})
			warm(t, l, p)
			charged := allow(t, l, p, "user:42")
			for charged.Source != shardlimit.FromRedis { // not by a server that is slow once
				charged = allow(t, l, p, "user:42")
			}
			if err := server.Hang(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, ask := range []func(context.Context, *shardlimit.Policy, string, int64) (shardlimit.Result, error){
				l.AllowN, l.AllowAtMost, l.Charge,
				func(ctx context.Context, p *shardlimit.Policy, subject string, _ int64) (shardlimit.Result, error) {
					return l.Peek(ctx, p, subject)
				},
			} {
				if r := result(t)(ask(t.Context(), p, "user:42", 1)); r.Source != shardlimit.FromFallback || r.Failure == nil {
					t.Errorf("on a server that hangs: %+v, want the failure mode's answer", r)
				}
			}
			both := []shardlimit.Request{ask(p, "user:42"), ask(p, "user:43")}
			all, err := l.AllowAll(t.Context(), both...)
			if err != nil {
				t.Error(err)
			}
			for _, o := range l.AllowEach(t.Context(), both...) {
				all = append(all, result(t)(o.Result, o.Err))
			}
			for _, r := range all {
				if r.Source != shardlimit.FromFallback || r.Failure == nil {
					t.Errorf("several on a server that hangs: %+v, want the failure mode's answer", r)
				}
			}
			if err := l.Wait(t.Context(), p, "user:42"); err != nil {
				t.Errorf("Wait on a server that hangs: %v, want that it passes as its mode says", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			if err := l.Wait(ctx, closed("closed", p.Limits()[0]), "user:42"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait on a server that hangs, failing closed: %v, want %v", err, context.DeadlineExceeded)
			}
			for _, err := range []error{l.Refund(t.Context(), charged), l.Reset(t.Context(), p, "user:42")} {
				if _, ok := errors.AsType[*shardlimit.UnavailableError](err); !ok {
					t.Errorf("on a server that hangs: %v, want an *UnavailableError", err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := errors.Join(rdb.Close(), server.Resume(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
}

// warm asks until Redis answers.
func warm(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy) {
	t.Helper()
	for {
		if r := result(t)(l.Peek(t.Context(), p, "user:0")); r.Source == shardlimit.FromRedis {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("Redis doesn't answer")
		}
	}
}

func singleClient(t *testing.T, server *rediscluster.Single) *redis.Client {
	t.Helper()
	return closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true}))
}

func TestLostReplyIsUnknownAndChargedOnce(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true}))
	l := newOn(t, rdb, shardlimit.Config{Timeout: patient})
	p := policy(t, shardlimit.Per(10, long))
	first := allow(t, l, p, "user:42")

	lose := func() { proxy.DropReplies(1, relay.ThenClose, relay.Commands("evalsha")) }
	lose()
	r := allow(t, l, p, "user:42")
	down, ok := errors.AsType[*shardlimit.UnavailableError](r.Failure)
	if !r.Allowed || !ok || !down.Unknown {
		t.Errorf("Allow without a reply = %+v, want a failure of unknown outcome", r)
	}
	if r := allow(t, l, p, "user:42"); r.Remaining != 7 {
		t.Errorf("after three calls %d of 10 remain, want 7", r.Remaining)
	}
	if err := l.Refund(t.Context(), first); err != nil { // loads its script
		t.Fatal(err)
	}

	last := allow(t, l, p, "user:42")
	lose()
	err := l.Refund(t.Context(), last)
	if down, ok := errors.AsType[*shardlimit.UnavailableError](err); !ok || !down.Unknown {
		t.Errorf("Refund without a reply: error %v, want one of unknown outcome", err)
	}
	if err := l.Refund(t.Context(), last); err != nil {
		t.Errorf("the same Refund again: error %v, want none and nothing done", err)
	}
	if r := result(t)(l.Peek(t.Context(), p, "user:42")); r.Remaining != 8 {
		t.Errorf("%d of 10 remain, want 8", r.Remaining)
	}
}

func TestRedisNotUpAtStart(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := policy(t, shardlimit.Per(5, long))
	single := newOn(t, singleClient(t, server), shardlimit.Config{})
	for name, l := range map[string]*shardlimit.Limiter{
		"New":  single,
		"Open": opened(t, &redis.ClusterOptions{Addrs: []string{server.Addr()}}),
	} {
		r := allow(t, l, p, "user:42")
		down, ok := errors.AsType[*shardlimit.UnavailableError](r.Failure)
		if !r.Allowed || !ok || down.Unknown {
			t.Errorf("%s: Allow = %+v, want it allowed by the fallback and never run", name, r)
		}
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	warm(t, single, p)
}

func opened(t *testing.T, opts *redis.ClusterOptions) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.Open(opts, shardlimit.Config{Prefix: redistest.Prefix(t)})
	return closing.Opened(t, l, err)
}

func TestConfigurationFaultsAreErrors(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	rdb := singleClient(t, server)
	l := newOn(t, rdb, shardlimit.Config{Timeout: patient})
	p := policy(t, shardlimit.Per(5, long))
	allow(t, l, p, "user:42")

	key := rdb.Keys(t.Context(), "rl:*").Val()[0]
	if err := rdb.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.RPush(t.Context(), key, "a list").Err(); err != nil {
		t.Fatal(err)
	}
	wantServerError(t, l, p, "WRONGTYPE")
	if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-@scripting").Err(); err != nil {
		t.Fatal(err)
	}
	wantServerError(t, l, p, "NOPERM")
}

// wantServerError checks that Allow hands the server's error on.
func wantServerError(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, code string) {
	t.Helper()
	r, err := l.Allow(t.Context(), p, "user:42")
	if err == nil || !strings.HasPrefix(err.Error(), "shardlimit: ") || !strings.Contains(err.Error(), code) || r != (shardlimit.Result{}) {
		t.Errorf("Allow = %+v, %v; want an error with %s", r, err, code)
	}
}

func TestCloseClosesOnlyItsOwnClient(t *testing.T) {
	rdb := client(t)
	l := clustered(t, rdb)
	o := opened(t, redistest.Shared(t).ClientOptions())
	p := policy(t, shardlimit.Per(5, long))
	for _, l := range []*shardlimit.Limiter{l, o} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Allow(t.Context(), p, "user:42"); !errors.Is(err, shardlimit.ErrClosed) {
			t.Errorf("Allow after Close: error %v, want ErrClosed", err)
		}
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client given to New, after Close: %v", err)
	}
}

func TestOpenDecidesInRedis(t *testing.T) {
	l := opened(t, redistest.Shared(t).ClientOptions())
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.Per(2, long)}, Timeout: patient,
	})
	for _, want := range []bool{true, true, false} {
		if r := allow(t, l, p, "user:42"); r.Allowed != want || r.Source != shardlimit.FromRedis {
			t.Errorf("Allow = %+v, want %t from Redis", r, want)
		}
	}
}
