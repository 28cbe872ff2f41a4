package containers_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/rediscluster/containers"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestMain is also the program that is killed while it has containers.
func TestMain(m *testing.M) {
	if image := os.Getenv("CONTAINERS_TEST_HOLD"); image != "" {
		hold(image)
	}
	redistest.Main(m)
}

// hold starts a server, says which, and waits to be killed.
func hold(image string) {
	s, err := rediscluster.StartSingle(context.Background(), rediscluster.Options{Launch: containers.Launch(image)})
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.WriteString(s.Addr() + "\n"); err != nil {
		panic(err)
	}
	select {}
}

func TestKilledProgramLeavesNothing(t *testing.T) {
	image := inContainers(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "CONTAINERS_TEST_HOLD="+image)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if made(t, cmd.Process.Pid) == "" {
		t.Error("the program has no containers")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for made(t, cmd.Process.Pid) != "" { // go test's own timeout bounds it
		<-tick.C
	}
}

func TestServerThatEndsAtOnceIsToldWithItsLog(t *testing.T) {
	image := inContainers(t)
	before := made(t, os.Getpid())
	opts := rediscluster.Options{Launch: containers.Launch(image), Args: []string{"--no-such-flag", "1"}}
	_, err := rediscluster.Start(t.Context(), opts)
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("Start = %v, want what the server wrote", err)
	}
	if after := made(t, os.Getpid()); after != before {
		t.Errorf("left over:\n%s", after)
	}
}

// inContainers returns the image to use. Other runs have servers that need no
// Docker, so that these tests are for those that ask for containers.
func inContainers(t *testing.T) string {
	t.Helper()
	if os.Getenv("REDISTEST_LAUNCHER") != "containers" {
		t.Skip("REDISTEST_LAUNCHER is not containers")
	}
	redistest.StartSingle(t, redistest.Options{}) // skips where Docker or the image can't be had
	if image := os.Getenv("REDISTEST_IMAGE"); image != "" {
		return image
	}
	return containers.Image
}

// made lists the containers and networks that the program made.
func made(t *testing.T, pid int) string {
	t.Helper()
	var all bytes.Buffer
	for _, list := range []string{"ps -a", "network ls"} {
		args := append(strings.Fields(list), "--filter", fmt.Sprintf("name=rediscluster-%d-", pid), "--format", "{{.ID}}")
		out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %s: %v: %s", list, err, out)
		}
		all.Write(out)
	}
	return all.String()
}
