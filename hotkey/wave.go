package hotkey

import (
	"context"
	"slices"
	"time"
)

func newWaiter[C, R any]() *waiter[C, R] {
	w := &waiter[C, R]{timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// joinLocked puts w into the wave of its like, and returns what tells it of its
// landing.
func (f *flight[C, R]) joinLocked(w *waiter[C, R], timeout time.Duration, version uint64, cost int64, call C) chan struct{} {
	v := f.waveLocked(version, cost)
	if v == nil {
		v = &wave[C, R]{version: version, cost: cost, call: call, timeout: timeout, landed: make(chan struct{})}
		v.members, f.spare = f.spare, nil
		f.waves = append(f.waves, v)
	}
	v.members = append(v.members, w)
	f.waiting++
	w.flight, w.wave = f, v
	return v.landed
}

// waveLocked returns the wave that waits with that cost, nil if there is none.
func (f *flight[C, R]) waveLocked(version uint64, cost int64) *wave[C, R] {
	for _, v := range f.waves {
		if v.cost == cost && v.version == version {
			return v
		}
	}
	return nil
}

func (f *flight[C, R]) removeLocked(v *wave[C, R]) {
	i := slices.Index(f.waves, v)
	f.waves = slices.Delete(f.waves, i, i+1)
}

// settleLocked gives those who still wait their shares, or err, and returns how
// many they are.
func (v *wave[C, R]) settleLocked(share Share[R], err error) int64 {
	var served int64
	for _, w := range v.members {
		if w.gone {
			continue
		}
		share.Index = served
		w.settle(share, err)
		served++
	}
	return served
}

// passOnLocked serves those who wait with the cost of sent from what was granted
// to callers who had gone, and returns how many they are.
func (f *flight[C, R]) passOnLocked(sent *wave[C, R], share Share[R], served int64) int64 {
	next := f.waveLocked(sent.version, sent.cost)
	if next == nil || share.Granted <= served {
		return 0
	}
	n := min(share.Granted-served, int64(len(next.members)))
	for i, w := range next.members[:n] {
		share.Index = served + int64(i)
		w.settle(share, nil)
	}
	next.members = slices.Delete(next.members, 0, int(n))
	f.waiting -= int(n)
	if len(next.members) == 0 {
		f.removeLocked(next)
	}
	// All of next wake. Those not served wait on, by another channel.
	close(next.landed)
	next.landed = make(chan struct{})
	return n
}

// failLocked fails all who wait with err, if there is one.
func (f *flight[C, R]) failLocked(err error) {
	if err == nil {
		return
	}
	for _, v := range f.waves {
		v.settleLocked(Share[R]{}, &WaitError{Err: err})
		close(v.landed)
	}
	clear(f.waves)
	f.waves, f.waiting = f.waves[:0], 0
}

// recycleLocked keeps the list of members, which no one else reads.
func (f *flight[C, R]) recycleLocked(v *wave[C, R]) {
	clear(v.members)
	f.spare, v.members = v.members[:0], nil
}

func (w *waiter[C, R]) settle(share Share[R], err error) {
	w.share, w.err = share, err
	w.done.Store(true)
}

// wait waits for the wave to land, for ctx or for the timeout.
func (f *Flights[C, R]) wait(ctx context.Context, s *stripe[C, R], w *waiter[C, R], landed chan struct{}, timeout time.Duration) (Share[R], error) {
	w.timer.Reset(timeout)
	for !w.done.Load() {
		select {
		case <-landed:
			if !w.done.Load() {
				landed = s.landing(w)
			}
		case <-ctx.Done():
			return f.leave(s, w, ctx.Err())
		case <-w.timer.C:
			return f.leave(s, w, context.DeadlineExceeded)
		}
	}
	return f.release(w)
}

// landing returns what will tell w of its landing.
func (s *stripe[C, R]) landing(w *waiter[C, R]) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.wave.landed
}

// release returns what w got, and keeps w for the next.
func (f *Flights[C, R]) release(w *waiter[C, R]) (Share[R], error) {
	share, err := w.share, w.err
	w.timer.Stop()
	*w = waiter[C, R]{timer: w.timer}
	f.waiters.Put(w)
	return share, err
}

// leave takes w out of its wave. If that has landed, w has its share.
func (f *Flights[C, R]) leave(s *stripe[C, R], w *waiter[C, R], cause error) (Share[R], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := w.wave
	switch {
	case w.done.Load():
		return f.release(w)
	case v.sent:
		w.gone = true
		return Share[R]{}, &WaitError{Sent: true, Err: cause}
	}
	i := slices.Index(v.members, w)
	v.members = slices.Delete(v.members, i, i+1)
	w.flight.waiting--
	if len(v.members) == 0 {
		w.flight.removeLocked(v)
	}
	_, _ = f.release(w)
	return Share[R]{}, &WaitError{Err: cause}
}
