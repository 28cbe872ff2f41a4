package live

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// watcher has a model before it and notes what that asks for.
type watcher struct {
	model tea.Model
	asked []demo.Action
	quits int
}

func newWatcher(msgs ...tea.Msg) *watcher {
	w := &watcher{}
	w.model = newModel(func(a demo.Action) { w.asked = append(w.asked, a) }, func() { w.quits++ })
	w.tell(msgs...)
	return w
}

// tell hands messages to the model and runs what it commands.
func (w *watcher) tell(msgs ...tea.Msg) {
	for _, msg := range msgs {
		var cmd tea.Cmd
		if w.model, cmd = w.model.Update(msg); cmd != nil {
			cmd()
		}
	}
}

func (w *watcher) lines() []string { return strings.Split(w.model.View(), "\n") }

func typed(keys string) tea.KeyMsg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(keys)} }

var ownCluster = sceneMsg{Where: "3 shards of redis 7.0.15", Shards: 3, Duration: time.Minute, Lends: true, CanMove: true, CanKill: true}

// second is a tick of one second in which each outcome was counted n times.
func second(n int) tickMsg {
	counts := tally.New(1, 3, 1, []ledger.Terms{{Limits: []shardlimit.Limit{shardlimit.PerHour(9)}}})
	for range n {
		for _, c := range []tally.Call{
			{Result: shardlimit.Result{Allowed: true, Source: shardlimit.FromLease}},
			{Result: shardlimit.Result{Source: shardlimit.FromRedis}},
			{Result: shardlimit.Result{Source: shardlimit.FromFallback}},
			{Err: errors.New("none")},
		} {
			c.At = ledger.Span{Sent: 0, Replied: 2 * time.Millisecond}
			counts.Writer(0).Record(&c)
		}
	}
	return tickMsg{
		At: 12 * time.Second, Length: time.Second, Counts: counts.Take(), Calls: int64(n),
		Cluster: []stage.Shard{
			{Addr: "127.0.0.1:7000", Slots: 5461, Replicas: 1, State: stage.Up},
			{Addr: "127.0.0.2:7000", Slots: 5462, State: stage.Down},
			{Addr: "127.100.200.103:7000", Slots: 5461, State: stage.Moving},
		},
		Hottest: []demo.Subject{{Name: "user-1", Shard: 1, Lease: demo.Lease{Units: 250, Left: 249}, Subject: tally.Subject{Admitted: 1234, Denied: 56, Unknown: 7}}},
	}
}

func TestKeysAskForTheirActions(t *testing.T) {
	w := newWatcher(ownCluster)
	for _, k := range []string{"k", "r", "m", "f", "x", "mf"} {
		w.tell(typed(k))
	}
	want := []demo.Action{demo.Kill, demo.Restart, demo.Move, demo.Flush, demo.Move, demo.Flush}
	if diff := cmp.Diff(want, w.asked); diff != "" || w.quits != 0 {
		t.Errorf("%d quits; asked for (-want +got)\n%s", w.quits, diff)
	}
}

func TestKeysThatQuit(t *testing.T) {
	for _, k := range []tea.KeyMsg{typed("q"), {Type: tea.KeyCtrlC}, {Type: tea.KeyEsc}} {
		w := newWatcher(k) // also before the stage stands
		if last := w.lines()[23]; w.quits != 1 || !strings.Contains(last, "ending") {
			t.Errorf("%v quits %d times and shows %q", k, w.quits, last)
		}
	}
}

func TestKeysOfWhatTheStageCannotDoAreNeitherShownNorObeyed(t *testing.T) {
	for _, c := range []struct {
		scene demo.Scene
		want  []demo.Action
	}{
		{demo.Scene{}, nil},
		{demo.Scene{CanMove: true}, []demo.Action{demo.Move, demo.Flush}},
		{demo.Scene{CanMove: true, CanKill: true}, []demo.Action{demo.Kill, demo.Restart, demo.Move, demo.Flush}},
	} {
		w := newWatcher(sceneMsg(c.scene), typed("krmf"))
		if diff := cmp.Diff(c.want, w.asked); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", c.scene, diff)
		}
		if shown := strings.Contains(w.lines()[23], "kill"); shown != c.scene.CanKill {
			t.Errorf("%+v: the key that kills is shown: %v", c.scene, shown)
		}
	}
}

func TestViewShowsShardsOutcomesLatencyAndSubjects(t *testing.T) {
	w := newWatcher(ownCluster, second(4321), eventMsg{9 * time.Second, "flushed the scripts"})
	screen := w.model.View()
	for _, line := range []string{
		"3 shards of redis 7.0.15",
		"12.0 of 60 s",
		"1 127.0.0.1:7000 5,461 1 up 12,963", // what has no error was decided by the first
		"2 127.0.0.2:7000 5,462 0 down 0",
		"3 127.100.200.103:7000 5,461 0 moving 0",
		"allowed 4,321/s █",
		"denied 4,321/s █",
		"fallback 4,321/s █",
		"errors 4,321/s █",
		"decided redis 33.3 % lease 33.3 % denial 0.0 % Redis calls each 0.333",
		"latency p50 2.0 ms p99 2.0 ms max 2.0 ms",
		"user-1 2 1,234 56 7 250 249",
		"9.0 s flushed the scripts",
		"k kill a primary • r restart it • m move slots • f flush scripts • q quit",
	} {
		if !slices.ContainsFunc(w.lines(), func(l string) bool { return strings.Contains(squeezed(l), line) }) {
			t.Errorf("no %q in\n%s", line, screen)
		}
	}
}

// squeezed returns a line with its spaces run together.
func squeezed(line string) string { return strings.Join(strings.Fields(line), " ") }

func TestViewFillsAnyTerminalExactly(t *testing.T) {
	long := eventMsg{time.Second, strings.Repeat("a long story ", 30)}
	for _, msgs := range [][]tea.Msg{{}, {ownCluster}, {ownCluster, second(5), long, long, second(10_000)}} {
		for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 120, Height: 40}, {Width: 300, Height: 100}, {Width: 20, Height: 5}, {Width: 1, Height: 1}} {
			w := newWatcher(append(msgs, size)...)
			lines := w.lines()
			if len(lines) != size.Height {
				t.Errorf("%d lines at %+v", len(lines), size)
			}
			for _, l := range lines {
				if lipgloss.Width(l) > size.Width {
					t.Errorf("%q is wider than %+v", l, size)
				}
			}
		}
	}
}

func TestColumnsStayWhereTheyAreWhateverTheFigures(t *testing.T) {
	ends := func(n int) (ends []int) {
		for _, l := range newWatcher(ownCluster, second(n)).lines() {
			for _, word := range []string{"moving", "/s ", "denial", "p99", "max", "56", "249"} {
				ends = append(ends, strings.Index(l, word))
			}
		}
		return ends
	}
	if diff := cmp.Diff(ends(1), ends(20_000)); diff != "" {
		t.Errorf("columns moved (-1 call +20,000)\n%s", diff)
	}
}

func TestLatestEventsAreSeenAndWrapped(t *testing.T) {
	w := newWatcher(ownCluster, second(1))
	for range 20 {
		w.tell(eventMsg{text: "of old"})
	}
	w.tell(eventMsg{text: strings.Repeat("word ", 20) + "the end"})
	lines := w.lines()
	if squeezed(lines[22]) != "" || !strings.HasSuffix(lines[21], "the end") || !strings.Contains(lines[19], "of old") {
		t.Errorf("want the latest event on two lines above the keys, in\n%s", w.model.View())
	}
}

func TestWhatWasAskedForIsShownUntilSomethingHappens(t *testing.T) {
	w := newWatcher(ownCluster, tea.WindowSizeMsg{Width: 100, Height: 24}, typed("k"))
	if last := w.lines()[23]; !strings.HasSuffix(last, "kill ...") {
		t.Errorf("last line %q", last)
	}
	w.tell(eventMsg{text: "killed"})
	if last := w.lines()[23]; strings.Contains(last, "...") {
		t.Errorf("last line %q after the event", last)
	}
}

func TestOpeningIsShownUntilTheStageStands(t *testing.T) {
	w := newWatcher(openingMsg("Starting 3 shards"))
	if got := w.lines()[3]; got != "Starting 3 shards ..." {
		t.Errorf("line %q", got)
	}
	w.tell(sceneMsg{Where: "the embedded store", Note: "No server here"}, second(1))
	if screen := w.model.View(); strings.Contains(screen, "Starting") || !strings.Contains(screen, "No server here") {
		t.Errorf("want the note and no opening in\n%s", screen)
	}
}

func TestRestOfTheLastSecondIsNotShown(t *testing.T) {
	rest := second(9)
	rest.Length = time.Millisecond
	w := newWatcher(ownCluster, second(5), rest)
	if !strings.Contains(w.model.View(), "5/s") {
		t.Errorf("no 5/s in\n%s", w.model.View())
	}
}
