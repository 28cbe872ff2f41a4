package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// proxies are those that tests run, each on its example in deploy/.
var proxies = []struct {
	name string
	// start starts it before a service, in which the pairs of the example are replaced.
	start  func(t *testing.T, app, daemon string, replace ...string) *proxied
	limits string // what the example asks the daemon to be told
	// Pairs: it waits for the daemon however busy the machine is; and it lets nothing
	// pass that the daemon did not.
	patient, closed []string
}{
	{
		"nginx", startNginx, limitsForNginx,
		[]string{"proxy_connect_timeout 100ms", "proxy_connect_timeout 30s", "proxy_read_timeout 500ms", "proxy_read_timeout 30s"},
		[]string{"error_page 502 504 = @unlimited;", ""},
	},
	{
		"caddy", startCaddy, limitsForCaddy,
		[]string{"dial_timeout 100ms", "dial_timeout 30s", "response_header_timeout 500ms", "response_header_timeout 30s"},
		[]string{"in [502, 504]", "in []"},
	},
}

// proxied is a proxy before a service.
type proxied struct {
	t      *testing.T
	url    string
	client *http.Client
}

// ask sends the proxy a request for a page.
func (p *proxied) ask(method, page, body string, header ...string) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+page, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := io.ReadAll(got.Body)
	if err = errors.Join(err, got.Body.Close()); err != nil {
		p.t.Fatal(err)
	}
	return got, string(text)
}

// get asks for the page.
func (p *proxied) get() (*http.Response, string) {
	p.t.Helper()
	return p.ask(http.MethodGet, "/page", "")
}

// startApp starts the service that a proxy protects, which counts what reaches it.
func startApp(t *testing.T) (url string, served func() int64) {
	t.Helper()
	var count atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		body, _ := io.ReadAll(r.Body)                            // the client says if it lacks
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body) // likewise
	}))
	t.Cleanup(app.Close)
	return app.URL, count.Load
}

// theirs is what clients add to their requests, to be limited as somebody else.
var theirs = []string{"X-Api-Key", "somebody", "X-Real-IP", "192.0.2.1", "X-Forwarded-For", "192.0.2.2"}

func TestProxiesServeWhatTheLimitOfTheClusterAllows(t *testing.T) {
	for _, tt := range proxies {
		t.Run(tt.name, func(t *testing.T) {
			cluster := redistest.Shared(t)
			d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--prefix="+redistest.Prefix(t), patient,
				"--config="+testfile.New(t, "limits.yaml", tt.limits))
			app, served := startApp(t)
			proxy := tt.start(t, app, d.public, tt.patient...)

			for left := 2; left >= 0; left-- {
				page := fmt.Sprintf("/page?subject=%d&policy=none", left)
				got, body := proxy.ask(http.MethodPost, page, "an order", theirs...)
				if want := "POST " + page + " an order"; got.StatusCode != http.StatusOK || body != want {
					t.Errorf("%s %q, want %q", got.Status, body, want)
				}
				if want := fmt.Sprintf(`"api";r=%d`, left); !strings.HasPrefix(got.Header.Get("RateLimit"), want) || got.Header.Get("RateLimit-Policy") == "" {
					t.Errorf("%v; want both fields, and %s", got.Header, want)
				}
			}
			got, _ := proxy.get()
			seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
			if got.StatusCode != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 1200 || got.Header.Get("RateLimit-Policy") == "" {
				t.Errorf("the fourth of 3/h: %s, %v; want 429, and at most 1200 s to wait", got.Status, got.Header)
			}
			if n := served(); n != 3 {
				t.Errorf("the service saw %d requests, want the 3 that passed", n)
			}
		})
	}
}

func TestProxiesWithoutTheirDaemonDoAsTheirConfigurationSays(t *testing.T) {
	for _, tt := range proxies {
		t.Run(tt.name, func(t *testing.T) {
			d := startDaemon(t, nil, "--config="+testfile.New(t, "limits.yaml", tt.limits))
			app, served := startApp(t)
			open := tt.start(t, app, d.public)
			closed := tt.start(t, app, d.public, tt.closed...)
			d.stop(syscall.SIGTERM)
			for range 4 {
				if got, body := open.ask(http.MethodPost, "/page", "an order"); got.StatusCode != http.StatusOK || body != "POST /page an order" {
					t.Errorf("open, the daemon away: %s %q, want the page", got.Status, body)
				}
			}
			if got, _ := closed.get(); got.StatusCode < http.StatusInternalServerError {
				t.Errorf("closed, the daemon away: %s, want a refusal", got.Status)
			}
			if n := served(); n != 4 {
				t.Errorf("the service saw %d requests, want 4", n)
			}
		})
	}
}

func TestProxiesPassOnWhatAPolicyAnswersWithoutRedis(t *testing.T) {
	for _, tt := range proxies {
		t.Run(tt.name, func(t *testing.T) {
			app, served := startApp(t)
			start := func(limits string) *proxied {
				d := startDaemon(t, nil, "--redis=127.0.0.1:1", "--config="+testfile.New(t, "limits.yaml", limits))
				return tt.start(t, app, d.public, tt.patient...)
			}
			if got, _ := start(tt.limits).get(); got.StatusCode != http.StatusServiceUnavailable || served() != 0 {
				t.Errorf("the policy fails closed: %s, %d served; want 503 and none", got.Status, served())
			}
			got, _ := start(strings.ReplaceAll(tt.limits, "closed", "open")).get()
			if _, says := got.Header["Ratelimit"]; got.StatusCode != http.StatusOK || says || got.Header.Get("RateLimit-Policy") == "" {
				t.Errorf("the policy fails open: %s, %v; want 200, and no word of what remains", got.Status, got.Header)
			}
		})
	}
}

func TestProxiesSayThatTheServiceIsAwayAndAskItOnce(t *testing.T) {
	for _, tt := range proxies {
		t.Run(tt.name, func(t *testing.T) {
			d := startDaemon(t, nil, "--config="+testfile.New(t, "limits.yaml", tt.limits))
			var asked atomic.Int64
			app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				asked.Add(1)
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(app.Close)
			got, _ := tt.start(t, app.URL, d.public, tt.patient...).ask(http.MethodPost, "/page", "an order")
			if got.StatusCode != http.StatusBadGateway || asked.Load() != 1 {
				t.Errorf("the service breaks off: %s, asked %d times; want 502 and once", got.Status, asked.Load())
			}
		})
	}
}
