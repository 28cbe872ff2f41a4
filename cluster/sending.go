package cluster

import (
	"context"
	"slices"
	"time"
)

// sending is the context of what goes to a node at once: a batch, or a call that
// its caller sends. Values are those of the context it was made of, and the end
// is its own. Sockets read the deadline; whoever waits for a connection is told
// by the shard's watch.
type sending struct {
	context.Context
	deadline time.Time
	done     chan struct{}
	err      error // why it ended, once done is closed
}

// Deadline returns the sending's deadline.
func (s *sending) Deadline() (time.Time, bool) { return s.deadline, true }

// Done returns a channel that is closed at the deadline.
func (s *sending) Done() <-chan struct{} { return s.done }

// Err returns why the context has ended, if so.
func (s *sending) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

func (s *sending) end(err error) {
	s.err = err
	close(s.done)
}

// watch ends sendings at their deadlines. A timer for each would cost more than
// all else that a call does here. This one is left to go off, and looks then
// what is under way and until when it may be.
type watch struct {
	timer *time.Timer
	at    time.Time       // when it goes off; zero: not at all
	out   []*sending      // under way, and not late
	spare []chan struct{} // of those that came back in time, to be used again
}

// beginLocked returns the context of what is sent until a deadline, and has it
// watched.
func (s *shard) beginLocked(ctx context.Context, deadline time.Time) *sending {
	out := &sending{Context: ctx, deadline: deadline, done: s.watch.channel()}
	s.watch.out = append(s.watch.out, out)
	if s.watch.at.IsZero() || deadline.Before(s.watch.at) {
		s.watchUntilLocked(deadline)
	}
	return out
}

func (w *watch) channel() chan struct{} {
	last := len(w.spare) - 1
	if last < 0 {
		return make(chan struct{})
	}
	c := w.spare[last]
	w.spare = w.spare[:last]
	return c
}

// finishLocked takes note that a sending has come back.
func (s *shard) finishLocked(out *sending) {
	w := &s.watch
	if i := slices.Index(w.out, out); i >= 0 {
		w.out = slices.Delete(w.out, i, i+1)
		w.spare = append(w.spare, out.done)
	}
}

func (s *shard) watchUntilLocked(deadline time.Time) {
	w := &s.watch
	w.at = deadline
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(deadline), s.endLate)
		return
	}
	w.timer.Reset(time.Until(deadline))
}

// endLate ends the sendings that are late.
func (s *shard) endLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.watch.at = time.Time{}
	s.watch.end(context.DeadlineExceeded, func(out *sending) bool { return !now.Before(out.deadline) })
	for _, out := range s.watch.out {
		if s.watch.at.IsZero() || out.deadline.Before(s.watch.at) {
			s.watchUntilLocked(out.deadline)
		}
	}
}

// end ends those sendings that are due.
func (w *watch) end(err error, due func(*sending) bool) {
	w.out = slices.DeleteFunc(w.out, func(out *sending) bool {
		if !due(out) {
			return false
		}
		out.end(err)
		return true
	})
}
