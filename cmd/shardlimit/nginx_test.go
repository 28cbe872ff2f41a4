package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
)

const limitsForNginx = `
authorize: {subject_headers: [X-Api-Key, X-Real-IP], denied_status: 403}
policies: [{name: api, limits: [3/h], on_failure: closed}]
`

// startNginx starts nginx on deploy/nginx/shardlimit.conf, at a socket of its own.
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
	return &proxied{t, "http://nginx", &http.Client{Transport: transport}}
}
