package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// proxied is nginx with deploy/nginx/shardlimit.conf before a service, at a socket of
// its own.
type proxied struct {
	t      *testing.T
	client *http.Client
}

// startNginx starts nginx on the example, in which the pairs are replaced too.
func startNginx(t *testing.T, app, daemon string, replace ...string) *proxied {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "nginx.sock")
	site := strings.NewReplacer(append([]string{
		"listen 80;", "listen unix:" + socket + ";",
		"127.0.0.1:3000", strings.TrimPrefix(app, "http://"),
		"127.0.0.1:8080", strings.TrimPrefix(daemon, "http://"),
	}, replace...)...).Replace(example(t, "nginx/shardlimit.conf"))
	conf := testfile.New(t, "nginx.conf", fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	%[2]s
}`, dir, site))
	needs(t, "nginx")
	if text, err := exec.CommandContext(t.Context(), "nginx", "-t", "-q", "-p", dir, "-c", conf).CombinedOutput(); err != nil {
		t.Fatalf("nginx -t: %v\n%s", err, text)
	}
	nginx := startOther(t, "nginx", "-p", dir, "-c", conf)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	nginx.until("it listened", func() bool {
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			_ = conn.Close() // nothing was said
		}
		return err == nil
	})
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &proxied{t, &http.Client{Transport: transport}}
}

// get asks nginx for a page.
func (p *proxied) get(header ...string) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://nginx/page", nil)
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
	body, err := io.ReadAll(got.Body)
	if err = errors.Join(err, got.Body.Close()); err != nil {
		p.t.Fatal(err)
	}
	return got, string(body)
}

// startApp starts the service that nginx protects, which counts what reaches it.
func startApp(t *testing.T) (url string, served func() int64) {
	t.Helper()
	var count atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		_, _ = io.WriteString(w, "the page "+r.URL.Path) // the client says if it lacks
	}))
	t.Cleanup(app.Close)
	return app.URL, count.Load
}

// limitsForNginx is what the example asks the daemon to be told.
const limitsForNginx = `
authorize: {subject_headers: [X-Api-Key, X-Real-IP], denied_status: 403}
policies: [{name: api, limits: [3/h], on_failure: closed}]
`

func TestNginxServesWhatTheLimitOfTheClusterAllows(t *testing.T) {
	cluster := redistest.Shared(t)
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--prefix="+redistest.Prefix(t), patient,
		"--config="+testfile.New(t, "limits.yaml", limitsForNginx))
	app, served := startApp(t)
	nginx := startNginx(t, app, d.public, "proxy_read_timeout 500ms", "proxy_read_timeout 30s", "proxy_connect_timeout 100ms", "proxy_connect_timeout 30s")

	for left := 2; left >= 0; left-- {
		got, body := nginx.get("X-Api-Key", fmt.Sprintf("another-%d", left)) // a client's own says nothing
		if want := fmt.Sprintf(`"api";r=%d`, left); got.StatusCode != http.StatusOK || body != "the page /page" || !strings.HasPrefix(got.Header.Get("RateLimit"), want) {
			t.Errorf("%s %q, RateLimit %q; want the page, and %s", got.Status, body, got.Header.Get("RateLimit"), want)
		}
	}
	got, _ := nginx.get()
	seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
	if got.StatusCode != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 1200 || got.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("the fourth of 3/h: %s, %v; want 429, and at most 1200 s to wait", got.Status, got.Header)
	}
	if n := served(); n != 3 {
		t.Errorf("the service saw %d requests, want the 3 that passed", n)
	}
}

func TestNginxWithoutItsDaemonDoesAsItsConfigurationSays(t *testing.T) {
	d := startDaemon(t, nil, "--config="+testfile.New(t, "limits.yaml", limitsForNginx))
	app, served := startApp(t)
	open := startNginx(t, app, d.public)
	closed := startNginx(t, app, d.public, "error_page 502 504 = @unlimited;", "")
	d.stop(syscall.SIGTERM)
	for range 4 {
		if got, body := open.get(); got.StatusCode != http.StatusOK || body != "the page /page" {
			t.Errorf("open, the daemon away: %s %q, want the page", got.Status, body)
		}
	}
	if got, _ := closed.get(); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("closed, the daemon away: %s, want 503", got.Status)
	}
	if n := served(); n != 4 {
		t.Errorf("the service saw %d requests, want 4", n)
	}
}

func TestNginxPassesOnThatNothingCanBeDecided(t *testing.T) {
	d := startDaemon(t, nil, "--redis=127.0.0.1:1", "--config="+testfile.New(t, "limits.yaml", limitsForNginx))
	app, served := startApp(t)
	nginx := startNginx(t, app, d.public, "proxy_read_timeout 500ms", "proxy_read_timeout 30s")
	if got, _ := nginx.get(); got.StatusCode != http.StatusServiceUnavailable || served() != 0 {
		t.Errorf("Redis away, and the policy fails closed: %s, %d served; want 503 and none", got.Status, served())
	}
}
