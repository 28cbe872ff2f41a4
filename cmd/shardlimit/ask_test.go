package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// call runs the program, and returns its exit code and what it prints.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCheckChargesAndInspectDoesNot(t *testing.T) {
	c := redistest.Shared(t)
	args := []string{
		"--redis=" + strings.Join(c.Addrs(), ","), "--prefix=" + redistest.Prefix(t), "--policy=api", "--limit=5/h", "--limit=9/d",
		"--subject=user:1", "--json",
	}
	for i, tt := range []struct {
		verb      []string
		code      int
		remaining int64
		granted   int64
	}{
		{[]string{"inspect"}, exitOK, 5, 0},
		{[]string{"check", "--cost=3"}, exitOK, 2, 3},
		{[]string{"inspect"}, exitOK, 2, 0},
		{[]string{"check", "--cost=3"}, int(errDenied), 2, 0},
		{[]string{"check", "--cost=2"}, exitOK, 0, 2},
		{[]string{"inspect"}, int(errDenied), 0, 0},
		{[]string{"reset"}, exitOK, 5, 0},
		{[]string{"check"}, exitOK, 4, 1},
	} {
		code, stdout, stderr := call(t, append(tt.verb, args...)...)
		var got struct {
			Allowed            bool
			Source, Limit      string
			Remaining, Granted int64
			RetryAfter         int64 `json:"retry_after_us"`
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%d: %q: %v; %s", i, tt.verb, err, stderr)
		}
		if code != tt.code || got.Allowed != (code == exitOK) || got.Allowed == (got.RetryAfter > 0) || got.Remaining != tt.remaining ||
			got.Granted != tt.granted || got.Source != "redis" || got.Limit != "5/h" {
			t.Errorf("%d: %q exits %d: %s; want %+v", i, tt.verb, code, stdout, tt)
		}
	}
}

func TestCheckPrintsADecisionForPeople(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	code, stdout, stderr := call(t, "check", "--redis="+s.Addr(), "--redis-single", "--policy=api", "--limit=2/h burst 7", "--subject=a", "--cost=7")
	want := "allowed by redis\nlimit        2/h burst 7\ngranted      7\nremaining    0\nretry after  0s\nreset after  3h30m0s\n"
	if code != exitOK || stdout != want {
		t.Errorf("exit code %d, %s\n%s\nwant\n%s", code, stderr, stdout, want)
	}
}

func TestCheckWithoutADecisionIsAnError(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		args []string
		why  string
	}{
		"nobody there":     {exitFailed, []string{"--redis=127.0.0.1:1", "--policy=api", "--limit=5/h", "--subject=a"}, "unavailable"},
		"no such name":     {exitFailed, []string{"--redis=127.0.0.1:1", "--policy=a b", "--limit=5/h", "--subject=a"}, "Name"},
		"nowhere":          {exitUsage, []string{"--policy=api", "--limit=5/h", "--subject=a"}, "--redis"},
		"cost above all":   {exitFailed, []string{"--redis=127.0.0.1:1", "--policy=api", "--limit=5/h", "--subject=a", "--cost=6"}, "can ever hold"},
		"no limit":         {exitUsage, []string{"--redis=127.0.0.1:1", "--policy=api", "--limit=fast", "--subject=a"}, "slash"},
		"nobody to ask of": {exitUsage, []string{"--redis=127.0.0.1:1", "--policy=api", "--limit=5/h"}, "--subject"},
	} {
		code, stdout, stderr := call(t, append([]string{"check"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.why) || strings.Contains(stderr, "shardlimit: shardlimit") {
			t.Errorf("%s: exit code %d, %q, %q; want %d and a word of %q", name, code, stdout, stderr, tt.code, tt.why)
		}
	}
}

func TestADaemonIsAskedLikeARedis(t *testing.T) {
	d := startDaemon(t, nil, "--policy=api=5/h")
	for i, tt := range []struct {
		args []string
		code int
		want string // in the output
	}{
		{[]string{"inspect", "--daemon=" + d.admin}, exitOK, `"granted":0,"limit":"5/h","remaining":5,`},
		{[]string{"check", "--daemon=" + d.public, "--cost=3"}, exitOK, `"granted":3,"limit":"5/h","remaining":2,`},
		{[]string{"check", "--daemon=" + d.public, "--cost=3"}, int(errDenied), `"granted":0,"limit":"5/h","remaining":2,`},
		{[]string{"reset", "--daemon=" + d.admin}, exitOK, `"remaining":5,`},
	} {
		code, stdout, stderr := call(t, append(tt.args, "--policy=api", "--subject=\xff", "--json")...)
		if code != tt.code || !strings.Contains(stdout, tt.want) {
			t.Errorf("%d: %q exits %d: %s%s; want %d and %s", i, tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
		why  string
	}{
		{[]string{"check", "--daemon=" + d.public, "--policy=none"}, exitFailed, "422"},
		{[]string{"check", "--daemon=127.0.0.1:1", "--policy=api"}, exitFailed, "--daemon"},
		{[]string{"check", "--daemon=http://127.0.0.1:1", "--policy=api"}, exitFailed, "refused"},
		{[]string{"check", "--daemon=" + d.public, "--policy=api", "--limit=1/s"}, exitUsage, "--limit"},
		{[]string{"inspect", "--daemon=" + d.public, "--policy=api"}, exitFailed, "404"},
	} {
		if code, stdout, stderr := call(t, append(tt.args, "--subject=a")...); code != tt.code || stdout != "" || !strings.Contains(stderr, tt.why) {
			t.Errorf("%q exits %d: %s%s; want %d and a word of %s", tt.args, code, stdout, stderr, tt.code, tt.why)
		}
	}
}

func TestAnAdminShowsTheToken(t *testing.T) {
	const token = "of-sixteen-bytes-or-more"
	d := startDaemon(t, []string{"SHARDLIMIT_ADMIN_TOKEN=" + token}, "--policy=api=5/h")
	args := []string{"inspect", "--daemon=" + d.admin, "--policy=api", "--subject=a"}
	if code, _, stderr := call(t, args...); code != exitFailed || !strings.Contains(stderr, "401") {
		t.Errorf("without the token: exit code %d, %s; want %d and 401", code, stderr, exitFailed)
	}
	t.Setenv("SHARDLIMIT_ADMIN_TOKEN", token)
	if code, stdout, stderr := call(t, args...); code != exitOK || !strings.HasPrefix(stdout, "allowed by memory\n") {
		t.Errorf("with it: exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestDoctorExitsByItsWorstFinding(t *testing.T) {
	opts := redistest.Options{Shards: 1, Args: []string{"--cluster-require-full-coverage", "no", "--lazyfree-lazy-expire", "yes"}}
	c := redistest.Start(t, opts)
	rdb := c.Nodes()[0].Client()
	doctor := func(want exit, worst string) {
		t.Helper()
		code, stdout, stderr := call(t, "doctor", "--json", "--redis="+c.Addrs()[0])
		var got struct{ Worst string }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != int(want) || got.Worst != worst {
			t.Errorf("exit code %d, worst %q (%v), want %d and %q\n%s", code, got.Worst, err, want, worst, stdout)
		}
		if !strings.Contains(stderr, "checking expiry") {
			t.Errorf("no progress in %q", stderr)
		}
	}
	doctor(errWarning, "warning") // there is no replica
	if err := rdb.Set(t.Context(), "rl:{a}:api:0000", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	doctor(errFailure, "failure")

	code, stdout, stderr := call(t, "doctor", "--quiet", "--redis="+c.Addrs()[0])
	if code != int(errFailure) || stderr != "" || !strings.Contains(stdout, "--fix lets them end") {
		t.Errorf("exit code %d, %q\n%s", code, stderr, stdout)
	}
	if code, _, stderr := call(t, "doctor", "--quiet", "--redis=127.0.0.1:1"); code != exitFailed || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("where nobody is: exit code %d, %q; want %d and why", code, stderr, exitFailed)
	}
}

func TestDoctorIsFineWithAHealthyCluster(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Replicas: 1, Args: []string{
		"--cluster-require-full-coverage", "no", "--lazyfree-lazy-expire", "yes", "--slowlog-max-len", "0",
	}})
	if code, stdout, stderr := call(t, "doctor", "--redis="+c.Addrs()[0]); code != exitOK {
		t.Errorf("exit code %d: %s\n%s", code, stderr, stdout)
	}
}
