package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
)

func TestSystemdTakesTheUnit(t *testing.T) {
	needs(t, "systemd-analyze")
	text := strings.ReplaceAll(example(t, "systemd/shardlimit.service"), "/usr/local/bin/shardlimit", self(t))
	unit := testfile.New(t, "shardlimit.service", text)
	var said bytes.Buffer
	verify := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unit)
	verify.Stdout, verify.Stderr = &said, &said
	if err := verify.Run(); err != nil || strings.Contains(said.String(), "shardlimit.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, &said)
	}
}

// setting returns what the unit says of a name, or nothing.
func setting(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(example(t, "systemd/shardlimit.service"))
	if m == nil {
		return ""
	}
	return m[1]
}

const limitsOfUnit = `
listen: {public: "127.0.0.1:0", admin: "127.0.0.1:0"}
log: {format: json}
redis: {nodes: ["127.0.0.1:1"]}
policies: [{name: api, limits: [3/h]}]
`

// TestTheUnitsCommandsWorkInTheProcThatItGives: what systemd would run starts,
// reloads and ends, and finds in /proc what Go and the metrics read there.
func TestTheUnitsCommandsWorkInTheProcThatItGives(t *testing.T) {
	needs(t, "unshare")
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run(); err != nil && os.Getenv("REDISTEST") != "must" {
		t.Skipf("needs the right to mount, as root has it: %v", err)
	}
	limits, password := testfile.New(t, "limits.yaml", limitsOfUnit), testfile.New(t, "redis-password", "secret")
	start := strings.NewReplacer(
		"/usr/local/bin/shardlimit", self(t),
		"/etc/shardlimit/limits.yaml", limits,
		"%d", filepath.Dir(password),
	).Replace(setting(t, "ExecStart"))
	proc := "hidepid=" + setting(t, "ProtectProc")
	if subset := setting(t, "ProcSubset"); subset != "" {
		proc += ",subset=" + subset
	}
	words := []string{"unshare", "--mount", "sh", "-c", `mount -t proc -o "$0" proc /proc && exec "$@"`, proc}
	d := launchBy(t, nil, append(words, strings.Fields(start)...))
	for d.public == "" || d.admin == "" {
		d.listens()
	}
	if text := d.wants(200, "GET", d.public+"/metrics", ""); !strings.Contains(text, "\nprocess_start_time_seconds ") {
		t.Error("its metrics lack process_start_time_seconds, as /proc lacks what Go reads there")
	}
	replace(t, limits, strings.Replace(limitsOfUnit, "3/h", "4/h", 1))
	reload := exec.CommandContext(t.Context(), "sh", "-c", setting(t, "ExecReload"))
	reload.Env = append(os.Environ(), "MAINPID="+strconv.Itoa(d.command.Process.Pid))
	if text, err := reload.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", setting(t, "ExecReload"), err, text)
	}
	d.await("configuration reloaded")
	if code := d.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("it exits %d on SIGTERM, which systemd would take for a failure", code)
	}
}
