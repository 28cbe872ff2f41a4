package middleware_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/middleware"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// patient is long enough for whatever is meant to succeed on a busy machine.
const patient = time.Minute

// onRedis returns a Limiter on a client.
func onRedis(t *testing.T, rdb redis.UniversalClient, cfg shardlimit.Config) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.New(rdb, cfg)
	return closing.Opened(t, l, err)
}

// onCluster returns a Limiter on the shared cluster, and the client that it
// uses.
func onCluster(t *testing.T) (*shardlimit.Limiter, *redis.ClusterClient, string) {
	t.Helper()
	rdb, prefix := redistest.Client(t, redistest.Shared(t), nil), redistest.Prefix(t)
	return onRedis(t, rdb, shardlimit.Config{Prefix: prefix, Timeout: patient}), rdb, prefix
}

// serve serves what c limits, and returns the server's address.
func serve(t *testing.T, c middleware.Config) string {
	t.Helper()
	return serveHandler(t, mustNew(t, c)(hello))
}

func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// get asks by a real client, and returns the answer and its body.
func get(t *testing.T, url string, field ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(field); i += 2 {
		r.Header.Add(field[i], field[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// Of each algorithm, the first request is denied as soon as the limit is used
// up, and passes once the client has slept for as long as it was told to.
func TestClientThatSleepsRetryAfterPasses(t *testing.T) {
	limiter, _, _ := onCluster(t)
	for _, a := range []shardlimit.Algorithm{
		shardlimit.TokenBucket, shardlimit.GCRA, shardlimit.SlidingWindow, shardlimit.SlidingLog, shardlimit.FixedWindow,
	} {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			// Two at once: a third within the second is denied. Should the machine
			// stand still for so long that it isn't, the next one is.
			limit := shardlimit.PerSecond(2).WithAlgorithm(a)
			url := serve(t, middleware.Config{
				Limiter: limiter, Policy: middleware.Always(policyOf(t, limit)), Subject: says("user:" + a.String()),
			})
			denied := askUntilDenied(t, url)
			told := denied.Header.Get("Retry-After")
			wait, err := strconv.Atoi(told)
			if err != nil || wait < 1 || wait > 2 {
				t.Fatalf("Retry-After %q, want 1 or 2 seconds", told)
			}
			if got := items(t, denied.Header, "RateLimit"); len(got) != 1 || got[0].Name != "api" || got[0].Params["r"] != 0 || got[0].Params["t"] != int64(wait) {
				t.Errorf("RateLimit of a denial = %v, want r=0 and t=%d", got, wait)
			}
			time.Sleep(time.Duration(wait) * time.Second)
			if again, _ := get(t, url); again.StatusCode != http.StatusOK {
				t.Errorf("after Retry-After: %d s: status %d, want 200", wait, again.StatusCode)
			}
		})
	}
}

// askUntilDenied returns the first answer that is a denial.
func askUntilDenied(t *testing.T, url string) *http.Response {
	t.Helper()
	for range 1000 {
		answer, body := get(t, url)
		switch answer.StatusCode {
		case http.StatusOK:
			if body != "hello" || answer.Header.Get("Retry-After") != "" {
				t.Fatalf("allowed: body %q, Retry-After %q", body, answer.Header.Get("Retry-After"))
			}
		case http.StatusTooManyRequests:
			return answer
		default:
			t.Fatalf("status %d %s", answer.StatusCode, body)
		}
	}
	t.Fatal("never denied")
	return nil
}

// Clients behind a proxy are told apart by address, and what they write into the
// header themselves doesn't help them.
func TestClientsBehindAProxyAreCountedApart(t *testing.T) {
	limiter, _, _ := onCluster(t)
	clients := newClients(t, middleware.ClientConfig{Trusted: loopback})
	url := serve(t, middleware.Config{
		Limiter: limiter, Policy: middleware.Always(policyOf(t, shardlimit.PerDay(2))), Subject: clients.Subject,
	})
	for _, tt := range []struct {
		forwarded string
		want      int
	}{
		{"192.0.2.1", 200},
		{"198.51.100.7, 192.0.2.1", 200},
		{"198.51.100.8, 192.0.2.1", 429},
		{"2001:db8:1:2::1", 200},
		{"2001:db8:1:2::2", 200},
		{"2001:db8:1:2:ffff::3", 429},
		{"2001:db8:1:3::1", 200},
	} {
		if answer, _ := get(t, url, "X-Forwarded-For", tt.forwarded); answer.StatusCode != tt.want {
			t.Errorf("X-Forwarded-For %s: status %d, want %d", tt.forwarded, answer.StatusCode, tt.want)
		}
	}
}

func TestFailureModesAnswerWhereRedisIsAway(t *testing.T) {
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})) // nobody listens there
	limiter := onRedis(t, rdb, shardlimit.Config{})
	for _, tt := range []struct {
		mode  shardlimit.FailureMode
		want  int
		retry string
	}{
		{shardlimit.FailOpen(), 200, ""},
		{shardlimit.FailClosed(), 503, "1"},
	} {
		p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(2)}, OnFailure: tt.mode,
		})
		url := serve(t, middleware.Config{Limiter: limiter, Policy: middleware.Always(p), Subject: says("user:42")})
		answer, _ := get(t, url)
		h := answer.Header
		if answer.StatusCode != tt.want || h.Get("Retry-After") != tt.retry || h.Get("RateLimit") != "" || h.Get("RateLimit-Policy") != `"api";q=2;w=1` {
			t.Errorf("%v: status %d, fields %v; want %d, Retry-After %q, the policy and nothing of what is left", tt.mode, answer.StatusCode, h, tt.want, tt.retry)
		}
	}
}

// A share is a limit like any other: who has used it up is told so, and not that
// the service is down. Who asks for more than it can hold can't be told.
func TestShareIsALimitWhereRedisIsAway(t *testing.T) {
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})) // nobody listens there
	limiter := onRedis(t, rdb, shardlimit.Config{})
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(20)}, OnFailure: shardlimit.FailLocal(0.1),
	})
	url := serve(t, middleware.Config{
		Limiter: limiter, Policy: middleware.Always(p), Subject: middleware.Path,
		Cost: func(r *http.Request) int64 { return int64(len(r.URL.Query()["unit"])) + 1 },
	})
	for _, tt := range []struct {
		target string
		want   int
		retry  string
	}{
		{"/a", 200, ""},
		{"/a", 200, ""},
		{"/a", 429, "1800"}, // a unit of two an hour
		{"/b?unit&unit", 503, "1"},
	} {
		answer, body := get(t, url+tt.target)
		h := answer.Header
		if answer.StatusCode != tt.want || h.Get("Retry-After") != tt.retry || h.Get("RateLimit") != "" {
			t.Errorf("%s: status %d, fields %v, %s; want %d, Retry-After %q and nothing of what is left", tt.target, answer.StatusCode, h, body, tt.want, tt.retry)
		}
	}
}

// What is only tried out is no client's business: every request goes through, and
// nothing is said of the limit, be it used up or Redis away.
func TestShadowSaysNothing(t *testing.T) {
	nowhere := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}))
	away := onRedis(t, nowhere, shardlimit.Config{})
	limiter, _, _ := onCluster(t)
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerDay(2)}, OnFailure: shardlimit.FailClosed(), Shadow: true,
	})
	for name, l := range map[string]*shardlimit.Limiter{"by Redis": limiter, "Redis is away": away} {
		url := serve(t, middleware.Config{Limiter: l, Policy: middleware.Always(p), Subject: says("user:42"), XRateLimit: true})
		for range 4 {
			answer, body := get(t, url)
			if answer.StatusCode != http.StatusOK || body != "hello" {
				t.Errorf("%s: %d %s, want it to go through", name, answer.StatusCode, body)
			}
			for _, field := range []string{"RateLimit-Policy", "RateLimit", "Retry-After", "X-RateLimit-Limit"} {
				if said := answer.Header.Get(field); said != "" {
					t.Errorf("%s: %s: %q, want nothing said of a Shadow policy", name, field, said)
				}
			}
		}
		if n := l.Inspect().Counters.Shadowed; n < 2 {
			t.Errorf("%s: %d shadowed, want 2 at least", name, n)
		}
	}
}

func TestMisconfigurationIsAnErrorWhateverTheMode(t *testing.T) {
	limiter, rdb, prefix := onCluster(t)
	p := policyOf(t, shardlimit.PerDay(2)) // fails open
	url := serve(t, middleware.Config{Limiter: limiter, Policy: middleware.Always(p), Subject: says("user:42")})
	if answer, _ := get(t, url); answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d, want 200", answer.StatusCode)
	}
	spoil(t, rdb, prefix)
	answer, body := get(t, url)
	if answer.StatusCode != http.StatusInternalServerError || body != `{"title":"Internal Server Error","status":500}` {
		t.Errorf("WRONGTYPE: %d %s, want 500 and nothing of the error", answer.StatusCode, body)
	}
}

// spoil puts a list where the limiter has its key.
func spoil(t *testing.T, rdb *redis.ClusterClient, prefix string) {
	t.Helper()
	found := make(chan string, 1)
	err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, prefix+":*").Result()
		if len(keys) > 0 {
			found <- keys[0]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	key := <-found
	if err := errors.Join(rdb.Del(t.Context(), key).Err(), rdb.RPush(t.Context(), key, "a list").Err()); err != nil {
		t.Fatal(err)
	}
}

// A client that goes while Redis hangs is answered nothing, and its request isn't
// served either.
func TestCallerWhoIsGoneIsAnsweredNothing(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
	limiter := onRedis(t, rdb, shardlimit.Config{Timeout: patient})
	if err := server.Hang(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, leave := context.WithCancel(t.Context())
	p := policyOf(t, shardlimit.PerSecond(2))
	limit := mustNew(t, middleware.Config{
		Limiter: limiter,
		Policy: func(*http.Request) *shardlimit.Policy {
			leave()
			return p
		},
		Subject: says("user:42"),
		Respond: func(http.ResponseWriter, *http.Request, middleware.Refusal) { t.Error("it was answered") },
	})
	limited := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was served") }))
	header := make(chan http.Header, 1)
	url := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(w, r)
		header <- w.Header()
	}))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := http.DefaultClient.Do(r); err == nil {
		_ = answer.Body.Close()
		t.Error("the client has not gone")
	}
	if h := <-header; len(h) != 0 {
		t.Errorf("fields %v, want none", h)
	}
}

// A client that has closed its own side still reads: what wasn't decided for it
// is no 200.
func TestClientThatOnlyWritesNoMoreIsRefused(t *testing.T) {
	limit := mustNew(t, middleware.Config{
		Limiter: untilGone{},
		Policy:  middleware.Always(policyOf(t, shardlimit.PerSecond(2))),
		Subject: says("user:42"),
	})
	url := serveHandler(t, limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was served") })))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	closing.Opened(t, conn, err)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("answer: %s, want 503", answer.Status)
	}
}

// untilGone decides nothing before the caller is gone.
type untilGone struct{}

func (untilGone) AllowN(ctx context.Context, _ *shardlimit.Policy, _ string, _ int64) (shardlimit.Result, error) {
	<-ctx.Done()
	return shardlimit.Result{}, ctx.Err()
}

// Each route has its own policy, and two policies hold for one of them.
func TestPoliciesByRoute(t *testing.T) {
	limiter, _, _ := onCluster(t)
	policies := map[string]*shardlimit.Policy{}
	for pattern, rate := range map[string]int64{"GET /cheap": 3, "GET /dear": 1} {
		policies[pattern] = shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: pattern[len("GET /"):], Limits: []shardlimit.Limit{shardlimit.PerDay(rate)},
		})
	}
	mux := http.NewServeMux()
	byRoute := mustNew(t, middleware.Config{
		Limiter: limiter,
		Policy:  func(r *http.Request) *shardlimit.Policy { _, pattern := mux.Handler(r); return policies[pattern] },
		Subject: middleware.APIKey("X-API-Key"),
	})
	inAll := mustNew(t, middleware.Config{
		Limiter: limiter,
		Policy:  middleware.Always(shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "all", Limits: []shardlimit.Limit{shardlimit.PerDay(4)}})),
		Subject: middleware.APIKey("X-API-Key"),
	})
	for _, path := range []string{"/cheap", "/dear", "/free"} {
		mux.Handle("GET "+path, hello)
	}
	url := serveHandler(t, inAll(byRoute(mux)))
	for i, tt := range []struct {
		path   string
		status int
		fields string
	}{
		{"/dear", 200, `["all";r=3;t=64800 "dear";r=0;t=86400]`},
		{"/dear", 429, ""},
		{"/cheap", 200, `["all";r=1;t=21600 "cheap";r=2;t=57600]`},
		{"/free", 200, `["all";r=0;t=21600]`},
		{"/free", 429, ""},
	} {
		answer, _ := get(t, url+tt.path, "X-API-Key", "k1")
		fields := fmt.Sprint(answer.Header.Values("RateLimit"))
		if answer.StatusCode != tt.status || tt.fields != "" && fields != tt.fields {
			t.Errorf("request %d, %s: status %d, RateLimit %s; want %d %s", i, tt.path, answer.StatusCode, fields, tt.status, tt.fields)
		}
	}
	if answer, _ := get(t, url+"/free"); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("without a key: status %d, want 400", answer.StatusCode)
	}
}
