package live_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/live"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
)

// terminal is someone who presses q once there are decisions to see.
type terminal struct {
	mu     sync.Mutex
	output bytes.Buffer
	press  sync.Once
	keys   io.WriteCloser
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output.Write(p)
	if strings.Contains(t.output.String(), "user-1") {
		t.press.Do(func() {
			go func() {
				_, _ = t.keys.Write([]byte("q"))
				_ = t.keys.Close()
			}()
		})
	}
	return len(p), nil
}

func TestQuitLeavesTheScreenAndPrintsTheLedger(t *testing.T) {
	input, keys := io.Pipe()
	term := &terminal{keys: keys}
	o := demo.Options{Stage: stage.Options{Embedded: true}, Duration: time.Hour, Workers: 2, Subjects: 100, Seed: 1}
	kept, err := live.Run(t.Context(), o, term, tea.WithInput(input))
	if err != nil || !kept {
		t.Fatalf("Run = %v, %v", kept, err)
	}
	const left = "\x1b[?1049l" // the alternate screen
	_, after, ok := strings.Cut(term.output.String(), left)
	if !ok || !strings.Contains(after, "every promise was kept") || !strings.Contains(after, "the embedded store") {
		t.Errorf("want the ledger once the screen was left, in %q", after)
	}
}

func TestStageThatCannotBeSetUpIsAnErrorAndLeavesTheScreen(t *testing.T) {
	term := &terminal{}
	o := demo.Options{Stage: stage.Options{Server: t.TempDir()}, Duration: time.Hour, Workers: 1, Subjects: 1}
	if _, err := live.Run(t.Context(), o, term, tea.WithInput(nil)); err == nil {
		t.Error("no error without a server")
	}
}

func TestQuitBeforeTheStageStandsIsNoError(t *testing.T) {
	ctx, quit := context.WithCancel(t.Context())
	quit()
	o := demo.Options{Stage: stage.Options{Redis: []string{"127.0.0.1:1"}}, Duration: time.Hour, Workers: 1, Subjects: 1}
	if kept, err := live.Run(ctx, o, &terminal{}, tea.WithInput(nil)); err != nil || !kept {
		t.Errorf("Run = %v, %v; want nothing broken", kept, err)
	}
}
