package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

var block = regexp.MustCompile("(?s)```(sh|json)\n(.*?)```")

// TestTheDocsCommandsDoWhatTheySay runs each curl of docs/daemon.md at a daemon
// on a cluster. Where what it prints follows in the docs, it is that.
func TestTheDocsCommandsDoWhatTheySay(t *testing.T) {
	needs(t, "curl")
	text, err := os.ReadFile("../../docs/daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, nil, "--redis="+strings.Join(redistest.Shared(t).Addrs(), ","), "--prefix="+redistest.Prefix(t), patient,
		"--policy=api=100/s burst 200", "--policy=login=5/15m sliding_log")
	here := strings.NewReplacer("localhost:8080", strings.TrimPrefix(d.public, "http://"),
		"localhost:8081", strings.TrimPrefix(d.admin, "http://"), "curl -s ", "curl -sS --fail-with-body ")
	blocks, ran := block.FindAllStringSubmatch(string(text), -1), 0
	for i, b := range blocks {
		if b[1] != "sh" || !strings.Contains(b[2], "curl") {
			continue
		}
		got, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", here.Replace(b[2])).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", b[2], err, got)
		}
		if i+1 < len(blocks) && blocks[i+1][1] == "json" && string(got) != blocks[i+1][2] {
			t.Errorf("%s prints\n%s; the docs say\n%s", b[2], got, blocks[i+1][2])
		}
		ran++
	}
	if ran != 4 {
		t.Errorf("%d blocks of commands were run, want 4", ran)
	}
}

// needs skips the test where a program isn't installed, unless there must be
// all that tests need.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	advice := "needs " + program + " (Debian: apt-get install " + packageOf(program) + ")"
	if os.Getenv("REDISTEST") == "must" {
		t.Fatal(advice)
	}
	t.Skip(advice)
}

// packageOf returns the Debian package that a program is in.
func packageOf(program string) string {
	if program == "systemd-analyze" {
		return "systemd"
	}
	return program
}
