package cluster

import (
	"context"
	"time"
)

// lone is the context of a call that its caller sends by itself: values are its
// caller's, and the end is its own. Sockets read the deadline; whoever waits for
// a connection is told by the shard's watch.
type lone struct {
	context.Context
	deadline time.Time
	done     chan struct{}
}

// Deadline returns the call's deadline.
func (l *lone) Deadline() (time.Time, bool) { return l.deadline, true }

// Done returns a channel that is closed at the deadline.
func (l *lone) Done() <-chan struct{} { return l.done }

// Err returns why the context has ended, if so.
func (l *lone) Err() error {
	select {
	case <-l.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// watch ends lone calls at their deadlines. A timer for each would cost more
// than all else that a call does here. This one is left to go off, and looks
// then whether a call is under way and until when it may be.
type watch struct {
	timer *time.Timer
	at    time.Time     // when it goes off; zero: not at all
	done  chan struct{} // of the last call, to be used again if it wasn't closed
}

// newLoneLocked returns the context of a lone call, and has it watched.
func (s *shard) newLoneLocked(ctx context.Context, deadline time.Time) *lone {
	if s.watch.done == nil {
		s.watch.done = make(chan struct{})
	}
	if s.watch.at.IsZero() || deadline.Before(s.watch.at) {
		s.watchUntilLocked(deadline)
	}
	return &lone{Context: ctx, deadline: deadline, done: s.watch.done}
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

// endLate ends the lone call under way if it is late.
func (s *shard) endLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.at = time.Time{}
	switch {
	case s.lone == nil:
	case time.Now().Before(s.lone.deadline):
		s.watchUntilLocked(s.lone.deadline)
	case s.watch.done != nil:
		close(s.watch.done)
		s.watch.done = nil
	}
}
