package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	redistest.Main(m)
}

// asProgram names a variable in whose presence the test's binary is the program.
const asProgram = "SHARDLIMIT_TEST_AS_PROGRAM"

// final is the last line of a demo's JSON.
type final struct {
	Type          string
	Kept          bool
	Over, Under   int64
	Errors        int64
	SlotsMoved    int              `json:"slots_moved"`
	ScriptFlushes int              `json:"script_flushes"`
	ErrorReplies  map[string]int64 `json:"error_replies"`
	RedisCalls    int64            `json:"redis_calls"`
	LocalTier     *hotkey.Counts   `json:"local_tier"`
	Sources       map[string]struct{ Redis, Lease, Denial, Fallback, Memory int64 }
	Policies      []struct {
		Policy                                string
		Subjects, Exact                       int
		Asked, Admitted, Unknown, Over, Under int64
	}
}

// runDemo runs a demo to its end and returns its ledger.
func runDemo(t *testing.T, args ...string) final {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"demo", "--json"}, args...), &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("demo %v exits %d: %s\n%s", args, code, &stderr, &stdout)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var f final
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &f); err != nil {
		t.Fatal(err)
	}
	if f.Type != "ledger" || !f.Kept || f.Over != 0 || f.Under != 0 || f.Errors != 0 {
		t.Errorf("demo %v ends with %+v, want a clean ledger", args, f)
	}
	for _, p := range f.Policies {
		s := f.Sources[p.Policy]
		if got := s.Redis + s.Lease + s.Denial + s.Fallback + s.Memory; got != p.Asked+s.Fallback {
			t.Errorf("demo %v: %+v made %d decisions of %+v", args, s, got, p)
		}
		if p.Admitted == 0 || p.Admitted > p.Asked || p.Exact > p.Subjects {
			t.Errorf("demo %v: policy %+v, want some admitted", args, p)
		}
	}
	return f
}

func TestDemoOnTheEmbeddedStoreKeepsEveryPromise(t *testing.T) {
	f := runDemo(t, "--embedded", "--duration=300ms")
	if f.LocalTier != nil || f.RedisCalls != 0 {
		t.Errorf("%d calls to Redis; the local tier: %+v; want none", f.RedisCalls, f.LocalTier)
	}
	for _, p := range f.Policies {
		if p.Policy == "trial" && (p.Admitted == p.Asked || p.Exact+int(p.Unknown) < p.Subjects) {
			t.Errorf("%+v: want some denied, and each subject exact", p)
		}
	}
}

func TestDemoOnItsOwnClusterKeepsEveryPromiseWhileSlotsMove(t *testing.T) {
	redistest.Shared(t) // skips where there is no server
	f := runDemo(t, "--quick", "--server="+os.Getenv("REDISTEST_SERVER"))
	edge, trial := f.Sources["edge"], f.Sources["trial"]
	if edge.Lease+edge.Denial < 10*edge.Redis || trial.Lease != 0 {
		t.Errorf("edge %+v, trial %+v; want most of the one decided by leases, and none of the other", edge, trial)
	}
	if f.LocalTier == nil || f.LocalTier.Lent < edge.Lease || f.RedisCalls < f.LocalTier.Asks {
		t.Errorf("%d calls to Redis; the local tier: %+v", f.RedisCalls, f.LocalTier)
	}
	if f.SlotsMoved != 101 || f.ScriptFlushes != 6 {
		t.Errorf("%d slots moved, %d flushes; want 101 and 6", f.SlotsMoved, f.ScriptFlushes)
	}
}

func TestDemoOnARunningClusterLeavesItsSlotsAlone(t *testing.T) {
	c := redistest.Shared(t)
	f := runDemo(t, "--duration=1s", "--redis="+strings.Join(c.Addrs(), ","))
	if f.SlotsMoved != 0 || f.ScriptFlushes != 0 || f.ErrorReplies != nil {
		t.Errorf("%+v: want nothing moved, flushed or counted", f)
	}
}

func TestDemoOnARunningServerWithoutCluster(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	runDemo(t, "--duration=1s", "--redis="+s.Addr())
}

// onTick is a writer that acts once a tick is written.
type onTick struct {
	bytes.Buffer
	act func()
}

func (w *onTick) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"tick"`)) {
		w.act()
	}
	return w.Buffer.Write(p)
}

func TestInterruptedDemoStillPrintsItsLedger(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stdout, stderr := onTick{act: interrupt}, bytes.Buffer{}
	if code := run(ctx, []string{"demo", "--json", "--embedded", "--duration=1h"}, &stdout, &stderr); code != exitOK {
		t.Errorf("exit code %d, want %d: %s\n%s", code, exitOK, &stderr, &stdout.Buffer)
	}
	if !strings.Contains(stdout.String(), `"type":"ledger"`) {
		t.Errorf("no ledger in %s", &stdout.Buffer)
	}
}

func TestDemoFailsWhereTheServerForgets(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	var stderr bytes.Buffer
	stdout := onTick{act: func() { s.Client().FlushAll(t.Context()) }}
	code := run(t.Context(), []string{"demo", "--json", "--duration=2s", "--redis=" + s.Addr()}, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stdout.String(), `"kept":false`) {
		t.Errorf("exit code %d, want %d and a promise not kept: %s", code, exitFailed, &stdout.Buffer)
	}
}

func TestTextDemoShowsTheLedger(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"demo", "--embedded", "--duration=300ms"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d, want %d: %s", code, exitOK, &stderr)
	}
	for _, want := range []string{"the embedded store", "decisions/s", "5/m sliding_log", "over 0, under 0, errors 0"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, &stdout)
		}
	}
}

func TestDemoWithoutAServerSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"demo", "--duration=100ms"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d, want %d: %s", code, exitOK, &stderr)
	}
	if !strings.Contains(stdout.String(), "apt install redis-server") {
		t.Errorf("no word of what to install in\n%s", &stdout)
	}
}

func TestCompareOnThisMachine(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no server, so no bytes
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"compare", "--json"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d, want %d: %s", code, exitOK, &stderr)
	}
	var rows []map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &rows); err != nil || len(rows) != 5 {
		t.Errorf("%d rows (%v), want 5: %s", len(rows), err, &stdout)
	}
}

func TestBadUsageExitsWithItsOwnCode(t *testing.T) {
	for _, args := range [][]string{
		{"demo", "--nope"},
		{"demo", "--embedded", "--redis=127.0.0.1:1"},
		{"demo", "--subjects=0"},
		{"demo", "--duration=-1s"},
		{"demo", "--duration=0s"},
		{"demo", "--replicas=-1"},
		{"demo", "--plain", "--json"},
		{"doctor", "--sample=-1"},
		{"check", "--subject=a", "--limit=1/s"},
		{"nothing"},
		{},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("run(%v) = %d, %q; want %d and why", args, code, &stderr, exitUsage)
		}
	}
}

func TestWrongUsageIsToldFromWhatCanNotBeDone(t *testing.T) {
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "--redis: want the host:port of a node", []string{"doctor"}},
		{exitUsage, "--redis: want the host:port of a node", []string{"check", "--policy=api", "--subject=a", "--limit=1/s"}},
		{exitUsage, "missing flags: --limit=LIMIT, or --daemon=URL", []string{"inspect", "--policy=api", "--subject=a"}},
		{exitUsage, "--limit: a daemon's policies have their own", []string{"reset", "--policy=api", "--subject=a", "--limit=1/s", "--daemon=http://h"}},
		{exitFailed, "127.0.0.1:1: ", []string{"doctor", "--redis=127.0.0.1:1", "--quiet"}},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), tt.args, &stdout, &stderr); code != tt.code || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%v exits %d: %s; want %d and %q", tt.args, code, &stderr, tt.code, tt.want)
		}
	}
}
