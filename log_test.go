package shardlimit_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/shardlimit/shardlimit"
)

// line is what a log line says.
type line struct {
	Level, Msg, Shard string
}

// logged is a slog handler's output.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) lines(t *testing.T) (lines []line) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.Lines(l.buf.String()) {
		var got line
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, got)
	}
	return lines
}

// A line for each change, and no line for a call; and Close ends what writes
// them.
func TestLogHasALineForEachChange(t *testing.T) {
	h := newHidden(t)
	rec, log := newRecorder(), &logged{}
	left := goleak.IgnoreCurrent()
	l := newOn(t, h.rdb, shardlimit.Config{
		Timeout: patient, Observer: rec.observer(), Logger: slog.New(slog.NewJSONHandler(log, nil)),
	})
	p := policy(t, shardlimit.Per(1000, long))
	for range 2 {
		h.lose(1 << 30)
		for range 100 {
			allow(t, l, p, "s")
		}
		h.lose(0)
		rec.wait(t, h.proxy.Addr(), "recovered")
		rec.changes = nil
	}
	if err := h.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-@scripting").Err(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		_, _ = l.Allow(t.Context(), p, "s")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, left, goleak.IgnoreAnyFunction("github.com/shardlimit/shardlimit/internal/relay.(*Proxy).serve"),
		goleak.IgnoreAnyFunction("github.com/shardlimit/shardlimit/internal/relay.(*link).requests"),
		goleak.IgnoreAnyFunction("github.com/shardlimit/shardlimit/internal/relay.(*link).replies"))
	shard := h.proxy.Addr()
	outage := []line{
		{"WARN", "shardlimit: fallback in use", shard},
		{"WARN", "shardlimit: breaker opened", shard},
		{"INFO", "shardlimit: breaker closed", shard},
		{"INFO", "shardlimit: fallback no longer in use", shard},
	}
	want := append(append(slices.Clone(outage), outage...), line{"ERROR", "shardlimit: misconfigured", shard})
	if diff := cmp.Diff(want, log.lines(t)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
