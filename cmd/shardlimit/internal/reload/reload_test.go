package reload_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
)

const (
	good   = "policies: [{name: api, limits: [1/s]}]\n"
	better = "policies: [{name: api, limits: [2/s]}]\n"
	bad    = "policies: [{name: api, limits: [often]}]\nlisten: {pubic: x}\n"
)

// lines is a log that hands its messages on, with their attributes.
type lines chan string

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l lines) WithGroup(string) slog.Handler            { return l }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l <- text
	return nil
}

// open opens a good file of its own.
func open(t *testing.T) (*reload.File, string) {
	t.Helper()
	path := testfile.New(t, "limits.yaml", good)
	f, err := reload.Open(config.Source{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return f, path
}

// rate ends the test unless this is the rate of the policy api.
func rate(t *testing.T, f *reload.File, want int64) {
	t.Helper()
	if got := f.Now().Rules.Policy("api").Limits()[0].Rate; got != want {
		t.Fatalf("the rate is %d, want %d; %+v", got, want, f.Status())
	}
}

func TestABadFileLeavesTheLastGoodOneInPlace(t *testing.T) {
	f, path := open(t)
	log := make(lines, 10)
	for _, step := range []struct {
		text       string
		rate       int64
		generation int64
		fault      bool
		logged     int
	}{
		{good, 1, 1, false, 0}, // unchanged
		{bad, 1, 1, true, 2},   // a line for each fault
		{bad, 1, 1, true, 0},
		{better, 2, 2, false, 1},
		{"", 2, 2, true, 1},
		{good, 1, 3, false, 1},
		{good + "timeout: 1s\n", 1, 4, false, 2}, // and that it takes a restart
	} {
		testfile.Write(t, path, step.text)
		f.Reload(t.Context(), slog.New(log), nil)
		rate(t, f, step.rate)
		s := f.Status()
		if s.Generation != step.generation || (s.Fault != "") != step.fault || (s.FaultAt != nil) != step.fault {
			t.Errorf("after %q: %+v; want generation %d, a fault %t", step.text, s, step.generation, step.fault)
		}
		if len(log) != step.logged {
			t.Errorf("after %q: %d lines in the log, want %d", step.text, len(log), step.logged)
		}
		for len(log) > 0 {
			if line := <-log; step.fault && !strings.Contains(line, path+":1:") && !strings.Contains(line, path+":2:") {
				t.Errorf("the log says %q: want the file and the line", line)
			}
		}
	}
	if s := f.Status(); !s.Restart {
		t.Errorf("%+v: want to need a restart for the timeout", s)
	}
}

func TestAFileThatIsGoneLeavesTheLastGoodOneInPlace(t *testing.T) {
	f, path := open(t)
	log := make(lines, 10)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.Reload(t.Context(), slog.New(log), nil)
	rate(t, f, 1)
	if s := f.Status(); !strings.Contains(s.Fault, "no such file") || len(log) != 1 {
		t.Errorf("%+v, %d lines: want why, and one line", s, len(log))
	}
	testfile.Write(t, path, good)
	f.Reload(t.Context(), slog.New(log), nil)
	if s := f.Status(); s.Fault != "" {
		t.Errorf("%+v: want no fault once it is back", s)
	}
}

func TestAFileThatIsWrongAtTheStartIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if _, err := reload.Open(config.Source{Path: path}); err == nil {
		t.Error("Open of no file: no error")
	}
	testfile.Write(t, path, bad)
	if _, err := reload.Open(config.Source{Path: path}); err == nil {
		t.Error("Open of a bad file: no error")
	}
}

// watch watches f until the test ends, and returns its log and its signals.
func watch(t *testing.T, f *reload.File) (lines, chan<- os.Signal) {
	t.Helper()
	log, signals := make(lines, 100), make(chan os.Signal)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Watch(ctx, slog.New(log), nil, signals)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return log, signals
}

// await waits for a line.
func await(t *testing.T, log lines, want string) {
	t.Helper()
	for {
		select {
		case line := <-log:
			if strings.HasPrefix(line, want) {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("no line %q", want)
		}
	}
}

const reloaded = "configuration reloaded"

func TestWatchSeesAFileThatIsWritten(t *testing.T) {
	f, path := open(t)
	log, _ := watch(t, f)
	testfile.Write(t, path, better)
	await(t, log, reloaded)
	rate(t, f, 2)
	testfile.Write(t, path, bad)
	await(t, log, "configuration fault")
	rate(t, f, 2)
}

func TestWatchSeesAFileThatIsPutInPlaceOfTheOld(t *testing.T) {
	f, path := open(t)
	log, _ := watch(t, f)
	testfile.Write(t, path+".new", better)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	await(t, log, reloaded)
	rate(t, f, 2)
}

// TestWatchSeesKubernetesMoveItsLink: a ConfigMap is a folder of links by way of
// ..data, itself a link to a folder of the version, which is put in place of the
// old by a rename.
func TestWatchSeesKubernetesMoveItsLink(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		testfile.Write(t, filepath.Join(dir, name, "limits.yaml"), text)
	}
	link := func(to, from string) {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", good)
	link("..1", "..data")
	link("..data/limits.yaml", "limits.yaml")
	f, err := reload.Open(config.Source{Path: filepath.Join(dir, "limits.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	log, _ := watch(t, f)

	version("..2", better)
	link("..2", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	await(t, log, reloaded)
	rate(t, f, 2)
}

func TestASignalReadsTheFileAgainAtOnce(t *testing.T) {
	f, path := open(t)
	log, signals := watch(t, f)
	testfile.Write(t, path, better)
	signals <- os.Interrupt
	await(t, log, reloaded)
	rate(t, f, 2)
}

// TestWatchSeesAFolderThatALinkIsPutInPlaceOf: the way in which the reference's
// configuration is changed.
func TestWatchSeesAFolderThatALinkIsPutInPlaceOf(t *testing.T) {
	dir := t.TempDir()
	version := func(name, requests string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		testfile.Write(t, filepath.Join(dir, name, "d.yaml"), "{domain: d, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: "+requests+"}}]}")
		if err := os.Symlink(name, filepath.Join(dir, "next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "now")); err != nil {
			t.Fatal(err)
		}
	}
	requests := func(f *reload.File, want uint32) {
		t.Helper()
		m, found := f.Now().Envoy.Domains.Find("d", []domains.Entry{{Key: "k", Value: "v"}})
		if !found || m.Rule.Limit.Requests != want {
			t.Fatalf("found %t, %+v; want %d requests", found, m, want)
		}
	}
	version("1", "1")
	f, err := reload.Open(config.Source{Flags: config.Default(), Envoy: filepath.Join(dir, "now")})
	if err != nil {
		t.Fatal(err)
	}
	requests(f, 1)
	log, _ := watch(t, f)
	version("2", "2")
	await(t, log, reloaded)
	requests(f, 2)
	testfile.Write(t, filepath.Join(dir, "2", "d.yaml"), "{domain: d, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 3}}]}")
	await(t, log, reloaded)
	requests(f, 3)
	testfile.Write(t, filepath.Join(dir, "now", "e.yaml"), "domain: d")
	await(t, log, "configuration fault")
	requests(f, 3)
	if err := os.Remove(filepath.Join(dir, "2", "e.yaml")); err != nil {
		t.Fatal(err)
	}
	await(t, log, reloaded)
}

func TestWatchSeesTheFileThatALinkLeadsToWritten(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "real.yaml"), filepath.Join(t.TempDir(), "limits.yaml")
	testfile.Write(t, file, good)
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	f, err := reload.Open(config.Source{Path: link})
	if err != nil {
		t.Fatal(err)
	}
	log, _ := watch(t, f)
	testfile.Write(t, file, better)
	await(t, log, reloaded)
	rate(t, f, 2)
}

func TestAFileThatIsAsAtTheStartAgainNeedsNoRestart(t *testing.T) {
	f, path := open(t)
	for _, step := range []struct {
		text    string
		restart bool
	}{{good + "timeout: 1s\n", true}, {better, false}} {
		testfile.Write(t, path, step.text)
		f.Reload(t.Context(), slog.New(slog.DiscardHandler), nil)
		if s := f.Status(); s.Restart != step.restart {
			t.Errorf("after %q: %+v, want a restart: %t", step.text, s, step.restart)
		}
	}
}
