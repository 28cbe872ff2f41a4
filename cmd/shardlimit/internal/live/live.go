// Package live shows a demo on a terminal as it goes on, and lets whoever
// watches act on the cluster.
package live

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/report"
)

// Run plays a demo on a terminal, w, until its time is up, someone quits or ctx
// ends; then it leaves the screen as it was and prints what happened and the
// ledger. It reports whether every promise was kept. The options are for tests.
func Run(ctx context.Context, o demo.Options, w io.Writer, options ...tea.ProgramOption) (kept bool, err error) {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	const waiting = 8 // more than anybody asks for while one thing is done
	actions := make(chan demo.Action, waiting)
	o.Actions, o.Tick = actions, tick

	options = append([]tea.ProgramOption{tea.WithOutput(w), tea.WithAltScreen(), tea.WithoutSignalHandler()}, options...)
	s := newScreen(tea.NewProgram(newModel(asker(actions), quit), options...))
	ended := make(chan error, 1)
	go func() {
		_, err := s.program.Run()
		quit() // where the terminal is gone, so is whoever watched
		ended <- err
	}()
	kept, err = demo.Run(ctx, o, s)
	if !s.stood && errors.Is(err, context.Canceled) {
		kept, err = true, nil // ended before it began: nothing was promised
	}
	s.program.Quit()
	err = errors.Join(err, <-ended)
	_, printed := s.after.WriteTo(w)
	return kept, errors.Join(err, printed)
}

// tick is the time between two pictures.
const tick = 500 * time.Millisecond

// asker returns a function that asks for an action, unless too many wait.
func asker(actions chan<- demo.Action) func(demo.Action) {
	return func(a demo.Action) {
		select {
		case actions <- a:
		default:
		}
	}
}

// screen is a reporter that hands all on to a program, and keeps what is to be
// read after it.
type screen struct {
	program *tea.Program
	stood   bool // the stage did
	after   bytes.Buffer
	text    *report.Text
}

func newScreen(p *tea.Program) *screen {
	s := &screen{program: p}
	s.text = report.NewText(&s.after)
	return s
}

// What a model is told.
type (
	openingMsg string
	sceneMsg   demo.Scene
	tickMsg    demo.Tick
	eventMsg   struct {
		at   time.Duration
		text string
	}
)

// Opening says what begins now.
func (s *screen) Opening(plan string) {
	s.program.Send(openingMsg(plan))
	s.text.Opening(plan)
}

// Scene says what the demo plays with.
func (s *screen) Scene(sc demo.Scene) {
	s.stood = true
	s.program.Send(sceneMsg(sc))
	s.text.Scene(sc)
}

// Event tells of something that was done to the cluster.
func (s *screen) Event(at time.Duration, text string) {
	s.program.Send(eventMsg{at, text})
	s.text.Event(at, text)
}

// Tick shows what was counted in one tick.
func (s *screen) Tick(t demo.Tick) { s.program.Send(tickMsg(t)) }

// End keeps the ledger for later.
func (s *screen) End(e demo.End) { s.text.End(e) }
