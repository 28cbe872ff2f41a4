package hotkey

import (
	"context"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// FlightConfig is what Flights are made with. C is a call's own part, R a reply.
type FlightConfig[C, R any] struct {
	// Send sends one call for count requests of cost units each, and returns
	// how many of them were granted. It has returned by the deadline. ctx is
	// nobody's, and call is that of one of those who wait.
	Send func(ctx context.Context, deadline time.Time, call C, cost, count int64) (reply R, granted int64, err error)
	// Alone sends the call of a caller who is alone, for one request, from the
	// caller's goroutine and with its ctx; nil: Send does.
	Alone func(ctx context.Context, deadline time.Time, call C, cost int64) (reply R, granted int64, err error)
	// GiveBack gives back count requests of cost units each, which were granted
	// by reply to callers who had gone. It runs in a goroutine of its own; nil
	// leaves them charged.
	GiveBack func(call C, reply R, cost, count int64)
}

// Share is what a caller got of a call that was sent for several, or for it
// alone.
type Share[R any] struct {
	Reply   R     // to the call
	Count   int64 // requests the call was sent for
	Granted int64 // of them
	Index   int64 // this caller's place among them, from 0
}

// Allowed reports whether the caller's request was granted.
func (s Share[R]) Allowed() bool { return s.Index < s.Granted }

// Flights keeps at most one call for a key, of each cost and version, under way.
// A caller who finds none sends its own, from its own goroutine. Those who come
// meanwhile wait, however many: once it is answered, all of them go together in
// the next call. Other costs don't wait for it: one after the other, the last of
// many would come too late.
//
// Whoever leaves early leaves the flight unharmed: what was granted for it
// serves the next who waits, or is given back. Flights is safe for
// concurrent use. NewFlights makes one.
type Flights[C, R any] struct {
	config  FlightConfig[C, R]
	seed    maphash.Seed
	stripes [flightStripes]stripe[C, R]
	waiters sync.Pool
	crew    crew
}

const flightStripes = 64

// stripe holds the flights of a part of all keys. Its mutex guards them, their
// waves, and who waits for those.
type stripe[C, R any] struct {
	mu      sync.Mutex
	flights map[flightKey]*flight[C, R]
	spare   *flight[C, R] // landed, for the next
	_       [40]byte      // stripes share no cache line
}

// flightKey is what callers have in common who may go together: what is counted,
// by which version of the policy, and the cost.
type flightKey struct {
	policy, version uint64
	cost            int64
	subject         string
}

// flight is the call under way for a key, and those who wait to go next.
type flight[C, R any] struct {
	key   flightKey
	next  *wave[C, R] // nil: nobody waits
	spare []*waiter[C, R]
	awake chan struct{} // receives once all whom a wave woke are running
}

// wave is callers who go together.
type wave[C, R any] struct {
	call    C
	timeout time.Duration
	sent    bool
	waiting int             // of the members, those who have not left
	members []*waiter[C, R] // in the order of arrival
	landed  chan struct{}   // closed once some of the members are settled
	asleep  atomic.Int32    // members who are settled and don't run yet, and 1 until all are told
}

// waiter is a caller in a wave.
type waiter[C, R any] struct {
	flight *flight[C, R]
	wave   *wave[C, R]
	gone   bool // left
	timer  *time.Timer

	share *Share[R] // but for its Index, which is the next
	index int64
	err   error
	done  atomic.Bool // they are there to be read
}

// NewFlights returns Flights that send by c.Send.
func NewFlights[C, R any](c FlightConfig[C, R]) *Flights[C, R] {
	if c.Alone == nil {
		c.Alone = func(ctx context.Context, deadline time.Time, call C, cost int64) (R, int64, error) {
			return c.Send(ctx, deadline, call, cost, 1)
		}
	}
	f := &Flights[C, R]{config: c, seed: maphash.MakeSeed()}
	for i := range f.stripes {
		f.stripes[i].flights = map[flightKey]*flight[C, R]{}
	}
	f.waiters.New = func() any { return newWaiter[C, R]() }
	return f
}

// Do has one request of cost units decided, alone or with others, within
// timeout. Calls of equal key, version and cost must be as good as each other.
//
// The error is what Send returned for all who were in the call; a *WaitError if
// ctx or the timeout ended while the caller waited for others, or their call had
// no answer by its deadline; ErrClosed if the Flights were closed.
func (f *Flights[C, R]) Do(ctx context.Context, timeout time.Duration, key Key, cost int64, call C) (Share[R], error) {
	id := flightKey{policy: key.Spec.Policy, version: key.Spec.Version, cost: cost, subject: key.Subject}
	s := &f.stripes[(key.hash(f.seed)^mix(uint64(cost)))%flightStripes]
	s.mu.Lock()
	under := s.flights[id]
	if under == nil {
		under = s.openLocked(id)
		s.mu.Unlock()
		return f.alone(ctx, s, under, timeout, call)
	}
	w := f.waiters.Get().(*waiter[C, R])
	landed := under.joinLocked(w, timeout, call)
	s.mu.Unlock()
	return f.wait(ctx, s, w, landed, timeout)
}

// Close fails those who wait for a flight that has not been sent with ErrClosed,
// from the end of the one under way on, and waits for the calls and the
// give-backs under way until ctx ends, whose error it returns then.
func (f *Flights[C, R]) Close(ctx context.Context) error { return f.crew.close(ctx) }

func (s *stripe[C, R]) openLocked(id flightKey) *flight[C, R] {
	under := s.spare
	if under == nil {
		under = &flight[C, R]{}
	}
	s.spare = nil
	under.key = id
	s.flights[id] = under
	return under
}

func (s *stripe[C, R]) closeLocked(under *flight[C, R]) {
	delete(s.flights, under.key)
	under.key = flightKey{}
	s.spare = under
}

// alone sends a caller's own call.
func (f *Flights[C, R]) alone(ctx context.Context, s *stripe[C, R], under *flight[C, R], timeout time.Duration, call C) (Share[R], error) {
	var late error
	defer func() { f.land(s, under, late) }()
	deadline := time.Now().Add(timeout)
	reply, granted, err := f.config.Alone(ctx, deadline, call, under.key.cost)
	if err != nil {
		late = ifLate(err, deadline)
		return Share[R]{}, err
	}
	return Share[R]{Reply: reply, Count: 1, Granted: granted}, nil
}

// ifLate returns err if it took until the deadline: those who came meanwhile and
// waited get it too, and not their own turns to wait in vain.
func ifLate(err error, deadline time.Time) error {
	if time.Now().Before(deadline) {
		return nil
	}
	return err
}

// land ends the flight of a caller alone. Those who came meanwhile are sent by a
// goroutine of their own: none of them could leave while it sends for all.
func (f *Flights[C, R]) land(s *stripe[C, R], under *flight[C, R], late error) {
	s.mu.Lock()
	under.failLateLocked(late)
	if under.next == nil {
		s.closeLocked(under)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if !f.crew.start(func() { f.run(s, under) }) {
		f.abandon(s, under)
	}
}

// run sends wave after wave until nobody waits.
func (f *Flights[C, R]) run(s *stripe[C, R], under *flight[C, R]) {
	if under.awake == nil {
		under.awake = make(chan struct{}, 1)
	}
	runtime.Gosched() // whoever was alone may call again, and come with this one
	for {
		w := s.next(under)
		if w == nil {
			return
		}
		f.fly(s, under, w)
		<-under.awake // they call again about now: let them come with the next
	}
}

// next takes the wave that waits. Where nobody waits it ends the flight, and
// returns nil.
func (s *stripe[C, R]) next(under *flight[C, R]) *wave[C, R] {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := under.next
	if w == nil {
		s.closeLocked(under)
		return nil
	}
	under.next = nil
	w.sent = true
	w.dropGoneLocked()
	return w
}

// fly sends a wave, and tells its members. Its deadline is its own, so that who
// came last gets as long as who came first.
func (f *Flights[C, R]) fly(s *stripe[C, R], under *flight[C, R], w *wave[C, R]) {
	count, cost := int64(len(w.members)), under.key.cost
	deadline := time.Now().Add(w.timeout)
	reply, granted, err := f.config.Send(context.Background(), deadline, w.call, cost, count)
	share := &Share[R]{Reply: reply, Count: count, Granted: granted}
	s.mu.Lock()
	served := w.settleLocked(share, err)
	if err == nil {
		served += under.passOnLocked(share, served)
	} else {
		under.failLateLocked(ifLate(err, deadline))
	}
	under.recycleLocked(w)
	s.mu.Unlock()
	close(w.landed)
	w.woke(under)
	if surplus := granted - served; err == nil && surplus > 0 {
		f.giveBack(w.call, reply, cost, surplus)
	}
}

// giveBack gives back what serves nobody, beside the next flight. Once Flights
// close nothing new may start, and who closes waits for this goroutine.
func (f *Flights[C, R]) giveBack(call C, reply R, cost, surplus int64) {
	if f.config.GiveBack == nil {
		return
	}
	give := func() { f.config.GiveBack(call, reply, cost, surplus) }
	if !f.crew.start(give) {
		give()
	}
}

// abandon fails all who wait, as nobody is left to send for them.
func (f *Flights[C, R]) abandon(s *stripe[C, R], under *flight[C, R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	under.failLocked(ErrClosed)
	s.closeLocked(under)
}
