package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
)

// daemon is a process of "shardlimit serve".
type daemon struct {
	t             *testing.T
	command       *exec.Cmd
	public, admin string // URLs
	lines         chan logLine
	exited        chan struct{}
	code          int

	mu  sync.Mutex
	out strings.Builder // all that it wrote
}

// patient is the flag of a daemon whose test is about decisions of Redis, however
// busy the machine is.
const patient = "--timeout=10s"

// logLine is one line of its log.
type logLine struct {
	Msg, Level, Listener, Address, Fault string
	Generation                           int64
}

// startDaemon starts a daemon on ports of its own, with flags, and returns once
// it listens. It is killed when the test ends, unless it has ended.
func startDaemon(t *testing.T, env []string, flags ...string) *daemon {
	t.Helper()
	d := launch(t, env, flags...)
	for d.public == "" || d.admin == "" {
		d.listens()
	}
	return d
}

// listens waits until the daemon says that it listens, and returns where.
func (d *daemon) listens() logLine {
	d.t.Helper()
	line := d.await("listening")
	switch line.Listener {
	case "public":
		d.public = "http://" + line.Address
	case "admin":
		d.admin = "http://" + line.Address
	}
	return line
}

// launch starts a daemon and waits for nothing.
func launch(t *testing.T, env []string, flags ...string) *daemon {
	t.Helper()
	return launchBy(t, env, append([]string{self(t), "serve", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--log-format=json"}, flags...))
}

// self returns the test's binary, which is the program too.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// launchBy is launch by words of any kind, which end in a daemon.
func launchBy(t *testing.T, env, words []string) *daemon {
	t.Helper()
	d := &daemon{t: t, lines: make(chan logLine, 10_000), exited: make(chan struct{})}
	d.command = exec.CommandContext(t.Context(), words[0], words[1:]...)
	d.command.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	reader, writer := io.Pipe()
	d.command.Stdout, d.command.Stderr = writer, writer
	if err := d.command.Start(); err != nil {
		t.Fatal(err)
	}
	go d.read(reader)
	go func() {
		_ = d.command.Wait() // the code says it
		d.code = d.command.ProcessState.ExitCode()
		_ = writer.Close() // of a pipe in memory
		close(d.exited)
	}()
	t.Cleanup(func() {
		_ = d.command.Process.Kill() // it may have ended
		<-d.exited
	})
	return d
}

func (d *daemon) read(r io.Reader) {
	defer close(d.lines)
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		d.mu.Lock()
		d.out.WriteString(scan.Text() + "\n")
		d.mu.Unlock()
		var line logLine
		if json.Unmarshal(scan.Bytes(), &line) == nil {
			d.lines <- line
		}
	}
}

// output returns all that it has written.
func (d *daemon) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

// await waits for the next line of the log with this message.
func (d *daemon) await(message string) logLine {
	d.t.Helper()
	for line := range d.lines {
		if line.Msg == message {
			return line
		}
	}
	d.t.Fatalf("no line %q in the log of a daemon that has ended:\n%s", message, d.output())
	return logLine{}
}

// stop ends the daemon by a signal and returns its exit code.
func (d *daemon) stop(signal os.Signal) int {
	d.t.Helper()
	if err := d.command.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
	<-d.exited
	return d.code
}

// hangup sends SIGHUP.
func (d *daemon) hangup() {
	d.t.Helper()
	if err := d.command.Process.Signal(syscall.SIGHUP); err != nil {
		d.t.Fatal(err)
	}
}

// ask sends a request and returns the status and the body.
func (d *daemon) ask(method, url, body string, header ...string) (int, string) {
	d.t.Helper()
	status, text, err := d.try(method, url, body, header...)
	if err != nil {
		d.t.Fatal(err)
	}
	return status, text
}

// try is ask for other goroutines than the test's.
func (d *daemon) try(method, url, body string, header ...string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(d.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = got.Body.Close() }()
	all, err := io.ReadAll(got.Body)
	return got.StatusCode, string(all), err
}

// wants ends the test unless the answer has the status.
func (d *daemon) wants(status int, method, url, body string, header ...string) string {
	d.t.Helper()
	got, text := d.ask(method, url, body, header...)
	if got != status {
		d.t.Fatalf("%s %s %s: %d %s; want %d\n%s", method, url, body, got, text, status, d.output())
	}
	return text
}

// replace puts a file with this text in the place of another, in one step.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Rename(testfile.New(t, "next", text), path); err != nil {
		t.Fatal(err)
	}
}
