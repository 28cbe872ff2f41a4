package deadman_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/deadman"
)

// touch is a script that leaves a mark.
const touch = `: >"$1"`

// TestMain is also the program that is killed: armed, it waits for that.
func TestMain(m *testing.M) {
	mark := os.Getenv("DEADMAN_TEST_MARK")
	if mark == "" {
		os.Exit(m.Run())
	}
	if _, err := deadman.Arm(context.Background(), touch, mark); err != nil {
		panic(err)
	}
	if _, err := os.Stdout.WriteString("armed\n"); err != nil {
		panic(err)
	}
	select {}
}

func TestReleaseRunsTheScript(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	s := arm(t, touch, mark)
	if exists(t, mark) {
		t.Error("the script ran before its time")
	}
	if err := s.Release(); err != nil || !exists(t, mark) {
		t.Errorf("Release = %v, and the script did not run", err)
	}
	if err := arm(t, "exit 3").Release(); err == nil {
		t.Error("Release = nil, want the script's status")
	}
}

func TestDisarmDoesNot(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	if err := arm(t, touch, mark).Disarm(); err != nil || exists(t, mark) {
		t.Errorf("Disarm = %v, or the script ran", err)
	}
}

func TestAKilledProgramsScriptRuns(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "DEADMAN_TEST_MARK="+mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("armed\n"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !exists(t, mark) { // go test's own timeout bounds it
		<-tick.C
	}
}

func arm(t *testing.T, script string, args ...string) *deadman.Switch {
	t.Helper()
	s, err := deadman.Arm(t.Context(), script, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
