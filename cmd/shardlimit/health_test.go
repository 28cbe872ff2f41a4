package main

import (
	"strings"
	"testing"
)

func TestHealthAsksARunningDaemon(t *testing.T) {
	d := startDaemon(t, nil, "--redis=127.0.0.1:1")
	for _, tt := range []struct {
		flags []string
		code  int
		why   string
	}{
		{[]string{"--daemon=" + d.public}, exitOK, ""},
		{[]string{"--daemon=" + d.admin}, exitOK, ""},
		{[]string{"--daemon=" + d.public, "--ready"}, exitFailed, "No shard answers."},
		{[]string{"--daemon=http://127.0.0.1:1"}, exitFailed, "connection refused"},
		{[]string{"--daemon=127.0.0.1:1"}, exitFailed, "--daemon: want an http"},
	} {
		code, stdout, stderr := call(t, append([]string{"health", "--timeout=10s"}, tt.flags...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.why) {
			t.Errorf("health %q exits %d: %s%s; want %d and %q", tt.flags, code, stdout, stderr, tt.code, tt.why)
		}
	}
	local := startDaemon(t, nil)
	if code, _, stderr := call(t, "health", "--ready", "--daemon="+local.public); code != exitOK {
		t.Errorf("health --ready of a daemon without Redis exits %d: %s", code, stderr)
	}
}
