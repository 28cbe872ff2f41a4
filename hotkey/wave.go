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

// joinLocked puts w into the wave that waits, and returns what tells it of its
// landing.
func (f *flight[C, R]) joinLocked(w *waiter[C, R], timeout time.Duration, call C) chan struct{} {
	if f.next == nil {
		f.next = &wave[C, R]{call: call, timeout: timeout, members: f.spare, landed: make(chan struct{})}
		f.next.asleep.Store(1)
		f.spare = nil
	}
	v := f.next
	v.members = append(v.members, w)
	v.waiting++
	w.flight, w.wave = f, v
	return v.landed
}

// dropGoneLocked takes those out who have left. Each by itself, as it leaves,
// would cost a walk for each.
func (v *wave[C, R]) dropGoneLocked() {
	if v.waiting < len(v.members) {
		v.members = slices.DeleteFunc(v.members, func(w *waiter[C, R]) bool { return w.gone })
	}
}

// settleLocked gives those who still wait their shares, or err, and returns how
// many they are.
func (v *wave[C, R]) settleLocked(share *Share[R], err error) int64 {
	var served int64
	for _, w := range v.members {
		if w.gone {
			continue
		}
		w.settle(share, served, err)
		served++
	}
	return served
}

// passOnLocked serves those who wait from what was granted to callers who had
// gone, and returns how many they are.
func (f *flight[C, R]) passOnLocked(share *Share[R], served int64) int64 {
	v := f.next
	if v == nil || share.Granted <= served {
		return 0
	}
	v.dropGoneLocked()
	n := min(share.Granted-served, int64(v.waiting))
	for i, w := range v.members[:n] {
		w.settle(share, served+int64(i), nil)
	}
	v.members = slices.Delete(v.members, 0, int(n))
	v.waiting -= int(n)
	if v.waiting == 0 {
		f.next = nil
	}
	// All of them wake. Those not served wait on, by another channel.
	close(v.landed)
	v.landed = make(chan struct{})
	return n
}

// failLateLocked fails all who wait if a call was late, because of err.
func (f *flight[C, R]) failLateLocked(err error) {
	if err != nil {
		f.failLocked(&WaitError{Err: err})
	}
}

// failLocked fails all who wait with err.
func (f *flight[C, R]) failLocked(err error) {
	if v := f.next; v != nil {
		f.next = nil
		v.settleLocked(&Share[R]{}, err)
		close(v.landed)
	}
}

// spareMembers is the longest list that is kept to be used again.
const spareMembers = 1024

// recycleLocked keeps the list of members, which no one else reads.
func (f *flight[C, R]) recycleLocked(v *wave[C, R]) {
	clear(v.members)
	if cap(v.members) <= spareMembers {
		f.spare = v.members[:0]
	}
	v.members = nil
}

func (w *waiter[C, R]) settle(share *Share[R], index int64, err error) {
	w.share, w.index, w.err = share, index, err
	w.wave.asleep.Add(1)
	w.done.Store(true)
}

// woke counts one of those who were told. The last lets the next wave go: when it
// runs all of them had their turn, and have called again if they do so at once.
func (w *wave[C, R]) woke(under *flight[C, R]) {
	if w.asleep.Add(-1) == 0 {
		under.awake <- struct{}{}
	}
}

// lag is how much longer than its timeout a caller waits to be sent. The call
// under way has an earlier deadline, so by then it has failed, and whoever waits is
// about to be told: only who hears of it can say which shard did not answer.
const lag = 5 * time.Millisecond

// wait waits for the wave to land, for ctx or for the timeout.
func (f *Flights[C, R]) wait(ctx context.Context, s *stripe[C, R], w *waiter[C, R], landed chan struct{}, timeout time.Duration) (Share[R], error) {
	w.timer.Reset(timeout)
	for late := false; !w.done.Load(); {
		select {
		case <-landed:
			if !w.done.Load() {
				landed = s.landing(w)
			}
		case <-ctx.Done():
			return f.leave(s, w, ctx.Err())
		case <-w.timer.C:
			if !late && s.unsent(w) {
				late = true
				w.timer.Reset(lag)
				continue
			}
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

// unsent reports whether w's wave waits still.
func (s *stripe[C, R]) unsent(w *waiter[C, R]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !w.wave.sent
}

// release returns what w got, and keeps w for the next.
func (f *Flights[C, R]) release(w *waiter[C, R]) (Share[R], error) {
	share, err := *w.share, w.err
	share.Index = w.index
	w.wave.woke(w.flight)
	w.timer.Stop()
	*w = waiter[C, R]{timer: w.timer}
	f.waiters.Put(w)
	return share, err
}

// leave has w's wave go on without it. If that has landed, w has its share.
func (f *Flights[C, R]) leave(s *stripe[C, R], w *waiter[C, R], cause error) (Share[R], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.done.Load() {
		return f.release(w)
	}
	v := w.wave
	w.gone = true
	v.waiting--
	if v.waiting == 0 && !v.sent {
		w.flight.next = nil
	}
	return Share[R]{}, &WaitError{Sent: v.sent, Err: cause}
}
