//go:build e2e

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/deadman"
)

// composed is the daemon of deploy/docker/compose.yml on the cluster of docker/, in
// containers, networks and an image of the test's own.
type composed struct {
	t       *testing.T
	project string
	image   string   // of the daemon
	compose []string // the words that a command of its begins with
}

// try returns what a program printed. go test's own timeout bounds it, after which
// what startComposed has armed takes all down.
func (c *composed) try(words ...string) (string, error) {
	text, err := exec.CommandContext(context.WithoutCancel(c.t.Context()), words[0], words[1:]...).CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// run ends the test unless the program succeeds.
func (c *composed) run(words ...string) string {
	c.t.Helper()
	text, err := c.try(words...)
	if err != nil {
		c.t.Fatalf("%q: %v\n%s", words, err, text)
	}
	return text
}

// made lists what Docker has of the project, by a command of its.
func (c *composed) made(list ...string) []string {
	c.t.Helper()
	return strings.Fields(c.run(append(append([]string{"docker"}, list...), "--filter=label=com.docker.compose.project="+c.project)...))
}

// daemon returns the container of the daemon.
func (c *composed) daemon() string {
	c.t.Helper()
	found := c.made("ps", "--all", "--quiet", "--filter=label=com.docker.compose.service=shardlimit")
	if len(found) != 1 {
		c.t.Fatalf("the daemon's containers are %q, want one", found)
	}
	return found[0]
}

// is ends the test unless what Docker says of the container is this, by a template.
func (c *composed) is(container, template, want string) {
	c.t.Helper()
	if got := c.run("docker", "inspect", "--format="+template, container); got != want {
		c.t.Errorf("%s is %q, want %q", template, got, want)
	}
}

// until returns once it is so, and ends the test if it isn't in two minutes: the
// cluster's own patience is less.
func (c *composed) until(what string, so func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			said, _ := c.try(append(c.compose, "logs", "--tail=20")...)
			c.t.Fatalf("not %s:\n%s", what, said)
		}
	}
}

// needsDocker returns the words that a command of Compose begins with. The test is
// skipped where Docker doesn't answer, unless it must.
func needsDocker(t *testing.T) []string {
	t.Helper()
	compose := []string{"docker-compose"}
	if exec.CommandContext(t.Context(), "docker", "compose", "version").Run() == nil {
		compose = []string{"docker", "compose"}
	}
	for _, words := range [][]string{{"docker", "info"}, append(compose, "version")} {
		text, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
		switch {
		case err != nil && os.Getenv("REDISTEST") == "must":
			t.Fatalf("needs Docker and Compose: %q: %v: %s", words, err, text)
		case err != nil:
			t.Skipf("needs Docker and Compose: %q: %v: %s", words, err, text)
		}
	}
	return compose
}

// startComposed makes the image and starts all. What it makes is removed when the
// test ends, or this program, however it does.
func startComposed(t *testing.T) *composed {
	t.Helper()
	pid := os.Getpid()
	c := &composed{t: t, compose: needsDocker(t), project: "shardlimit-test-" + strconv.Itoa(pid)}
	c.image = "local/" + c.project
	t.Setenv("SHARDLIMIT_IMAGE", c.image)
	t.Setenv("SHARDLIMIT_PORT", "0")                             // any
	t.Setenv("CLUSTER_NET", "172.30."+strconv.Itoa(100+pid%150)) // beside that of make cluster-up
	c.compose = append(c.compose, "-p", c.project, "-f", "../../docker/cluster-compose.yml", "-f", deploy+"docker/compose.yml")

	down := append(c.compose, "down", "--volumes", "--remove-orphans", "--timeout=1")
	undo, err := deadman.Arm(t.Context(), `image=$1; shift; "$@"; status=$?; docker image rm --force "$image" && exit $status`, append([]string{c.image}, down...)...)
	if err != nil {
		t.Fatal(err)
	}
	var volumes []string // which have no label to be found by
	t.Cleanup(func() {
		if err := undo.Release(); err != nil {
			t.Error(err)
		}
		c.wantNothingLeft(volumes)
	})
	c.run("make", "-C", "../..", "image", "DAEMON="+c.image)
	c.run(append(c.compose, "up", "-d")...)
	volumes = strings.Fields(c.run(append([]string{"docker", "inspect", "--format={{range .Mounts}}{{.Name}} {{end}}"}, c.made("ps", "-aq")...)...))
	if len(volumes) == 0 {
		t.Error("the nodes have no volumes")
	}
	return c
}

// wantNothingLeft holds that Docker has nothing of what was made.
func (c *composed) wantNothingLeft(volumes []string) {
	c.t.Helper()
	left := slices.Concat(c.made("ps", "--all", "--quiet"), c.made("network", "ls", "--quiet"), strings.Fields(c.run("docker", "image", "ls", "--quiet", c.image)))
	for v := range strings.FieldsSeq(c.run("docker", "volume", "ls", "--quiet")) {
		if slices.Contains(volumes, v) {
			left = append(left, v)
		}
	}
	if len(left) > 0 {
		c.t.Errorf("left over: %q", left)
	}
}

// decides holds that ask, which asks for a unit of 5/15m, is answered by Redis to
// the unit. Some of a new cluster's nodes refuse longer than others that it is one:
// what they refuse is not charged.
func (c *composed) decides(ask func() string) {
	c.t.Helper()
	var got struct {
		Allowed   bool
		Remaining int
		Source    string
	}
	var text string
	next := func() bool {
		text = ask()
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			c.t.Fatal(err)
		}
		return got.Source == "redis"
	}
	c.until("decided by Redis", next)
	for left := 4; left >= -1; left-- {
		if got.Allowed != (left >= 0) || got.Remaining != max(left, 0) || got.Source != "redis" {
			c.t.Errorf("%s; want %d left, by Redis", text, left)
		}
		next()
	}
}

// TestComposeRunsTheImageOnACluster follows docs/deploy.md: the image is made and
// started, its daemon decides on three shards, has no rights, and ends when it is
// told to.
func TestComposeRunsTheImageOnACluster(t *testing.T) {
	c := startComposed(t)
	id := c.daemon()
	at := "http://" + c.run(append(c.compose, "port", "shardlimit", "8080")...)
	asked := &daemon{t: t}
	c.until("ready", func() bool {
		status, _, err := asked.try(http.MethodGet, at+"/readyz", "")
		return err == nil && status == http.StatusOK
	})
	c.decides(func() string {
		return asked.wants(http.StatusOK, http.MethodPost, at+"/v1/check", `{"policy":"login","subject":"user:1"}`)
	})
	if text := c.run("docker", "exec", id, "/shardlimit", "inspect", "--daemon=http://127.0.0.1:8081", "--policy=login", "--subject=user:2"); !strings.Contains(text, "5/15m") {
		t.Errorf("inspect in the container says %s", text)
	}
	c.until("healthy", func() bool {
		return c.run("docker", "inspect", "--format={{.State.Health.Status}}", id) == "healthy"
	})

	c.is(id, "{{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}", "[ALL] [no-new-privileges:true]")
	if users := strings.Fields(c.run("docker", "top", id, "-eo", "pid,uid,gid")); len(users) != 6 || users[4] != "65532" || users[5] != "65532" {
		t.Errorf("the container's processes: %q; want one, of user and group 65532", users)
	}
	if text, err := c.try("docker", "cp", "docker_test.go", id+":/file"); err == nil || !strings.Contains(text, "read-only") {
		t.Errorf("a file for the container: %v, %s; want that it is read-only", err, text)
	}

	c.run(append(c.compose, "stop", "shardlimit")...)
	c.is(id, "{{.State.Status}} {{.State.ExitCode}}", "exited 0") // killed, it were 137
	if text := c.run("docker", "logs", id); !strings.Contains(text, `"msg":"stopping"`) {
		t.Errorf("the log of a daemon that was told to end:\n%s", text)
	}
}
