package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestServeWithoutFlagsDecidesInItsOwnMemory(t *testing.T) {
	d := startDaemon(t, nil)
	text := d.wants(200, "POST", d.public+"/v1/check", `{"policy":"default","subject":"a"}`)
	if !strings.Contains(text, `"remaining":99,`) || !strings.Contains(text, `"source":"memory"`) {
		t.Errorf("check: %s; want 99 of 100 left in memory", text)
	}
	d.wants(200, "GET", d.public+"/readyz", "")
	d.wants(404, "GET", d.public+"/v1/inspect", "")
	if code := d.stop(os.Interrupt); code != exitOK {
		t.Errorf("exit code %d after SIGINT, want %d:\n%s", code, exitOK, d.output())
	}
}

func TestServeDecidesInTheClusterWithOthers(t *testing.T) {
	cluster := redistest.Shared(t)
	flags := []string{
		"--redis=" + strings.Join(cluster.Addrs(), ","), "--prefix=" + redistest.Prefix(t), patient, "--policy=api=10/h,50/d fixed_window",
	}
	one, two := startDaemon(t, nil, flags...), startDaemon(t, nil, flags...)
	one.wants(200, "POST", one.public+"/v1/check", `{"policy":"api","subject":"a","cost":7}`)
	text := two.wants(200, "POST", two.public+"/v1/check", `{"policy":"api","subject":"a","cost":2,"receipt":true}`)
	var d struct {
		Remaining       int64
		Source, Receipt string
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil || d.Remaining != 1 || d.Source != "redis" {
		t.Errorf("check at the second daemon: %s; want 1 of 10 left in Redis", text)
	}
	refund := `{"receipt":"` + d.Receipt + `"}`
	one.wants(421, "POST", one.public+"/v1/refund", refund)
	two.wants(204, "POST", two.public+"/v1/refund", refund)
	one.wants(200, "GET", one.public+"/v1/authorize?policy=api&subject=a&cost=3", "")
	two.wants(429, "GET", two.public+"/v1/authorize?policy=api&subject=a", "")
	two.wants(204, "POST", two.admin+"/v1/reset", `{"policy":"api","subject":"a"}`) // one knows of no denial
	one.wants(200, "GET", one.public+"/v1/authorize?policy=api&subject=a&cost=10", "")
	if code := one.stop(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d after SIGTERM, want %d:\n%s", code, exitOK, one.output())
	}
}

func TestServeDecidesInASingleServer(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	d := startDaemon(t, nil, "--redis="+s.Addr(), "--redis-single", patient)
	d.wants(200, "GET", d.public+"/readyz", "")
	text := d.wants(200, "POST", d.public+"/v1/check", `{"policy":"default","subject":"a"}`)
	if !strings.Contains(text, `"source":"redis"`) {
		t.Errorf("check: %s; want a decision of Redis", text)
	}
}

func TestMetricsTellOfDecisionsAndOfTheConfiguration(t *testing.T) {
	path := testfile.New(t, "limits.yaml", "policies: [{name: api, limits: [1/h]}]")
	d := startDaemon(t, nil, "--config="+path)
	for range 3 {
		d.wants(200, "POST", d.public+"/v1/check", `{"policy":"api","subject":"a"}`)
	}
	scraped := func(want ...string) {
		t.Helper()
		text := d.wants(200, "GET", d.public+"/metrics", "")
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %q in\n%s", line, text)
			}
		}
	}
	scraped(`shardlimit_decisions_total{outcome="allowed",policy="api",source="memory"} 1`,
		`shardlimit_decisions_total{outcome="denied",policy="api",source="memory"} 2`,
		`shardlimit_config_generation 1`, `shardlimit_config_last_reload_successful 1`)
	put := func(text, message string) {
		t.Helper()
		replace(t, path, text)
		d.hangup()
		d.await(message)
	}
	put("policies: [{name: api, limits: [never]}]", "configuration fault: the last good one holds")
	scraped(`shardlimit_config_generation 1`, `shardlimit_config_last_reload_successful 0`)
	if text := d.wants(200, "GET", d.admin+"/v1/inspect", ""); !strings.Contains(text, `:1:33: policies[0].limits[0]: \"never\" has no slash`) {
		t.Errorf("inspect: %s; want the fault", text)
	}
	put("policies: [{name: api, limits: [5/h]}]", "configuration reloaded")
	scraped(`shardlimit_config_generation 2`, `shardlimit_config_last_reload_successful 1`)
	if text := d.wants(200, "POST", d.public+"/v1/check", `{"policy":"api","subject":"a","cost":4}`); !strings.Contains(text, `"remaining":0`) {
		t.Errorf("check once 1/h is 5/h: %s; want 4 of 5 units left, as 1 was used", text)
	}
}

// eventually asks until the status is this one.
func (d *daemon) eventually(status int, url string) {
	d.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, text := d.ask("GET", url, "")
		if got == status {
			return
		}
		select {
		case <-tick.C:
		case <-d.exited:
			d.t.Fatalf("GET %s: %d %s, and then the daemon ended; want %d:\n%s", url, got, text, status, d.output())
		}
	}
}

func TestServeStartsWithoutRedisAndRecovers(t *testing.T) {
	cluster := redistest.Start(t, redistest.Options{NodeTimeout: time.Second})
	each := func(what string, f func(i int) error) {
		for i := range cluster.Nodes() {
			if err := f(i); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	kill := func(i int) error { return cluster.Nodes()[i].Kill(t.Context()) }
	restart := func(i int) error { return cluster.Nodes()[i].Restart(t.Context()) }
	each("kill", kill)
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--config="+testfile.New(t, "limits.yaml",
		"policies: [{name: open, limits: [5/h]}, {name: closed, limits: [5/h], on_failure: closed}]"))
	unready := func() {
		t.Helper()
		d.eventually(503, d.public+"/readyz")
		d.wants(200, "GET", d.public+"/healthz", "")
		d.wants(200, "GET", d.public+"/v1/authorize?policy=open&subject=a", "")
		d.wants(503, "GET", d.public+"/v1/authorize?policy=closed&subject=a", "")
	}
	unready()
	each("restart", restart)
	d.eventually(200, d.public+"/readyz")
	each("kill", kill)
	unready()
	each("restart", restart)
	d.eventually(200, d.public+"/readyz")
}

func TestServeAnswersWhatIsUnderWayBeforeItEnds(t *testing.T) {
	d := startDaemon(t, nil, "--policy=api=5/h")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(d.public, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const body = `{"policy":"api","subject":"a"}`
	send := func(text string) {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	answer := bufio.NewReader(conn)
	send(fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body)))
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v: want to go on", line, err)
	}
	if err := d.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.await("stopping")
	for listens := true; listens; { // it takes no more
		_, _, err := d.try("GET", d.public+"/healthz", "")
		listens = err == nil
	}
	send(body)
	if _, err := answer.ReadString('\n'); err != nil { // the end of 100 Continue
		t.Fatal(err)
	}
	got, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	if got.StatusCode != http.StatusOK || !got.Close {
		t.Errorf("%s, close %t: want 200, and to close", got.Status, got.Close)
	}
	<-d.exited
	if d.code != exitOK {
		t.Errorf("exit code %d, want %d:\n%s", d.code, exitOK, d.output())
	}
}

func TestServeShowsNoSecret(t *testing.T) {
	opts := redistest.TLS(t, redistest.Options{})
	cluster := redistest.Start(t, opts)
	const password, token, subjectKey = "s3cr3t-pass", "s3cr3t-token", "s3cr3t-key"
	for _, n := range cluster.Nodes() {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "limiter", "on", ">"+password, "~*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	seed := cluster.Addrs()[0]
	flags := []string{"--redis-ca=" + opts.Files[0], "--redis-server-name=" + opts.TLS.ServerName, "--log-level=debug", patient}
	limits := testfile.New(t, "limits.yaml", "subject_key_file: "+testfile.New(t, "subject.key", subjectKey)+"\npolicies: [{name: api, limits: [5/h]}]\n")
	for _, tt := range []struct {
		name   string
		env    []string
		flags  []string
		status int
		want   string
	}{
		{
			"password by environment",
			[]string{"SHARDLIMIT_REDIS_PASSWORD=" + password, "SHARDLIMIT_REDIS_USER=limiter", "SHARDLIMIT_ADMIN_TOKEN=" + token},
			[]string{"--redis=rediss://" + seed},
			200, `"source":"redis"`,
		},
		{
			"password by file",
			nil,
			[]string{
				"--redis=" + seed, "--redis-user=limiter", "--redis-password-file=" + testfile.New(t, "password", password+"\n"),
				"--admin-token-file=" + testfile.New(t, "token", token+"\n"),
			},
			200, `"source":"redis"`,
		},
		{
			"wrong password in a URL",
			[]string{"SHARDLIMIT_ADMIN_TOKEN=" + token},
			[]string{"--redis=rediss://limiter:" + password + "-wrong@" + seed},
			500, "WRONGPASS",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := startDaemon(t, tt.env, append(append(tt.flags, flags...), "--config="+limits)...)
			if text := d.wants(tt.status, "POST", d.public+"/v1/check", `{"policy":"api","subject":"a"}`); !strings.Contains(text, tt.want) {
				t.Errorf("check: %s; want %q", text, tt.want)
			}
			d.wants(401, "GET", d.admin+"/v1/inspect", "")
			d.wants(401, "GET", d.admin+"/v1/inspect", "", "Authorization", "Bearer "+token+"-wrong")
			text := d.wants(200, "GET", d.admin+"/v1/inspect", "", "Authorization", "Bearer "+token)
			d.stop(syscall.SIGTERM)
			if all := text + d.output(); strings.Contains(all, "s3cr3t") {
				t.Errorf("a secret in\n%s", all)
			}
		})
	}
}

func TestServeSaysWhyItCanNotStart(t *testing.T) {
	bad := testfile.New(t, "bad.yaml", "policies: [{name: api, limits: [often]}]\n")
	for _, tt := range []struct {
		code  int
		want  string
		flags []string
	}{
		{exitUsage, "--config and --policy can't be used together", []string{"--config=x", "--policy=api=1/s"}},
		{exitUsage, "--listen=80: must be host:port or :port", []string{"--listen=80"}},
		{exitUsage, "--redis: must be host:port", []string{"--redis=http://limiter:s3cr3t@h:1"}},
		{exitUsage, "--redis: must be host:port", []string{"--redis=s3cr3t@h:1"}},
		{exitUsage, "--receipts=0: must be 1 to 10000000", []string{"--receipts=0"}},
		{exitUsage, "--log-level must be one of", []string{"--log-level=loud"}},
		{exitFailed, "no such file", []string{"--config=none.yaml"}},
		{exitFailed, bad + `:1:33: policies[0].limits[0]: "often" has no slash`, []string{"--config=" + bad}},
		{exitUsage, `--policy=api: shardlimit: Limit: "": is empty`, []string{"--policy=api"}},
		{exitUsage, "--policy=api=2/s: is there already", []string{"--policy=api=1/s", "--policy=api=2/s"}},
		{exitUsage, "--policy=envoy.a=2/s: begins as the names of Envoy's rules do", []string{"--policy=envoy.a=2/s"}},
		{exitUsage, "--prefix={a}: must be 1 to 64 of", []string{"--prefix={a}"}},
		{exitUsage, "--prefix=: must be 1 to 64 of", []string{"--prefix="}},
		{exitUsage, "--timeout=0s: must be above 0", []string{"--timeout=0"}},
		{exitUsage, "--read-timeout=0s: must be above 0", []string{"--read-timeout=0s"}},
		{exitUsage, "--listen=:65536: must be host:port or :port", []string{"--listen=:65536"}},
		{exitFailed, "nothing to listen on", []string{"--listen="}},
		{exitFailed, "redis: no node is named", []string{"--redis-single"}},
		{exitFailed, "redis: no node is named", []string{"--redis-user=limiter"}},
		{exitFailed, "redis: no node is named", []string{"--config=" + testfile.New(t, "nowhere.yaml", "redis: {tls: {server_name: a}}\npolicies: [{name: api, limits: [1/s]}]\n")}},
		{exitFailed, "redis:// and rediss:// side by side", []string{"--redis=redis://h:1,rediss://i:1"}},
		{exitFailed, "0.0.0.0:0: others than this machine reach it, so it needs a token", []string{"--admin=0.0.0.0:0"}},
		{exitFailed, ":0: others than this machine reach it, so it needs a token", []string{"--admin=:0"}},
		{exitUsage, "--envoy=80: must be host:port or :port", []string{"--envoy=80"}},
		{exitFailed, "envoy: an address to listen on and limits go together", []string{"--envoy=127.0.0.1:0"}},
		{exitFailed, "envoy: an address to listen on and limits go together", []string{"--envoy-config=" + testfile.New(t, "e.yaml", "domain: e\n")}},
		{exitFailed, bad + ":1:1: policies: unknown key: want descriptors or domain", []string{"--envoy=127.0.0.1:0", "--envoy-config=" + bad}},
		{exitFailed, "admin token: ", []string{"--admin-token-file=none"}},
		{exitFailed, "two: must be visible ASCII without spaces, in one line", []string{"--admin-token-file=" + testfile.New(t, "two", "s3cr3t\ns3cr3t\n")}},
		{exitFailed, "spaces: must be visible ASCII", []string{"--admin-token-file=" + testfile.New(t, "spaces", " s3cr3t\n")}},
		{exitFailed, "nul: must be visible ASCII", []string{"--admin-token-file=" + testfile.New(t, "nul", "s3cr3t\x00\n")}},
		{exitFailed, "letters: must be visible ASCII", []string{"--admin-token-file=" + testfile.New(t, "letters", "s3cr3té\n")}},
		{exitFailed, "is empty: it should hold a secret", []string{"--admin-token-file=" + testfile.New(t, "empty", "\n")}},
		{exitFailed, "--redis-password-file: ", []string{"--redis=h:1", "--redis-password-file=none"}},
		{exitFailed, "--redis-single: want one node", []string{"--redis=h:1,h:2", "--redis-single"}},
		{exitFailed, "no PEM certificate", []string{"--redis=h:1", "--redis-ca=" + bad}},
		{exitFailed, "--redis-cert and --redis-key: want both or none", []string{"--redis=h:1", "--redis-cert=" + bad}},
		{exitFailed, "--redis-cert and --redis-key: ", []string{"--redis=h:1", "--redis-cert=" + bad, "--redis-key=" + bad}},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"serve", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0"}, tt.flags...)
		if code := run(t.Context(), args, &stdout, &stderr); code != tt.code || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("serve %v exits %d: %s; want %d and %q", tt.flags, code, &stderr, tt.code, tt.want)
		}
		if strings.Contains(stderr.String(), "s3cr3t") {
			t.Errorf("a secret in %s", &stderr)
		}
	}
}

func TestConfigCheckPrintsEveryFault(t *testing.T) {
	bad := testfile.New(t, "bad.yaml", "polices: []\npolicies: [{name: a b, limits: [often]}]\n")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"config", "check", bad}, &stdout, &stderr)
	for _, want := range []string{bad + ":1:1: polices: unknown key", bad + ":2:19: policies[0].name: ", bad + ":2:33: policies[0].limits[0]: "} {
		if code != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("config check exits %d: %s; want %d and %q", code, &stderr, exitFailed, want)
		}
	}
	stdout.Reset()
	right := testfile.New(t, "right.yaml", "policies: [{name: api, limits: [1/s]}]")
	if code := run(t.Context(), []string{"config", "check", right}, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "is right: policies api") {
		t.Errorf("config check of a right file exits %d: %s", code, &stdout)
	}
	stdout.Reset()
	envoy := testfile.New(t, "envoy.yaml", "domain: shop\n---\ndomain: mail\n")
	if code := run(t.Context(), []string{"config", "check", "--envoy-config=" + envoy}, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "is right: Envoy's domains mail, shop") {
		t.Errorf("config check of limits for Envoy exits %d: %s", code, &stdout)
	}
	if code := run(t.Context(), []string{"config", "check"}, &stdout, &stderr); code != exitUsage {
		t.Errorf("config check of nothing exits %d, want %d", code, exitUsage)
	}
}
