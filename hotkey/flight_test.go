package hotkey

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	roundTrip = time.Millisecond
	timeout   = 50 * time.Millisecond
)

var keyA = Key{Spec: &Spec{Policy: 1, Version: 1, Name: "api"}, Subject: "a"}

// sent is a call as a bank saw it.
type sent struct{ Cost, Count int64 }

// bank is a Redis of one key: it grants units until none is left, a round trip
// after it was asked.
type bank struct {
	mu       sync.Mutex
	units    int64
	fail     error // of every call
	calls    []sent
	given    int64          // back
	busy     map[int64]bool // by cost
	overlaps int            // calls beside another of their cost
}

func (b *bank) send(ctx context.Context, deadline time.Time, _ string, cost, count int64) (int64, int64, error) {
	b.begin(cost)
	defer b.end(cost)
	if err := b.travel(ctx, deadline); err != nil {
		return 0, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, sent{cost, count})
	if b.fail != nil {
		return 0, 0, b.fail
	}
	granted := min(count, b.units/cost)
	b.units -= granted * cost
	return b.units, granted, nil
}

func (b *bank) begin(cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy[cost] {
		b.overlaps++
	}
	if b.busy == nil {
		b.busy = map[int64]bool{}
	}
	b.busy[cost] = true
}

func (b *bank) end(cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy[cost] = false
}

func (b *bank) travel(ctx context.Context, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case <-time.After(roundTrip):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *bank) giveBack(_ string, _ int64, cost, count int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given += cost * count
}

func (b *bank) flights() *Flights[string, int64] {
	return NewFlights(FlightConfig[string, int64]{Send: b.send, GiveBack: b.giveBack})
}

// outcome is what a caller got.
type outcome struct {
	Share[int64]
	err error
}

// do starts a caller, who waits by the time that do returns.
func do(f *Flights[string, int64], ctx context.Context, cost int64) <-chan outcome { //nolint:revive // f is the subject
	got := make(chan outcome, 1)
	go func() {
		share, err := f.Do(ctx, timeout, keyA, cost, "")
		got <- outcome{share, err}
	}()
	synctest.Wait()
	return got
}

func TestThoseWhoComeMeanwhileGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 4}
		f := b.flights()
		first := do(f, t.Context(), 1)
		var rest []<-chan outcome
		for range 5 {
			rest = append(rest, do(f, t.Context(), 1))
		}
		if got := <-first; got.err != nil || !got.Allowed() || got.Count != 1 || got.Reply != 3 {
			t.Errorf("alone: got %+v, want allowed with 3 left", got)
		}
		for i, c := range rest {
			got := <-c
			want := Share[int64]{Reply: 0, Count: 5, Granted: 3, Index: int64(i)}
			if got.err != nil || got.Share != want {
				t.Errorf("caller %d: got %+v, want %+v", i, got, want)
			}
		}
		if diff := cmp.Diff([]sent{{1, 1}, {1, 5}}, b.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// sorted returns the calls in the order of their costs.
func (b *bank) sorted() []sent {
	return slices.SortedStableFunc(slices.Values(b.calls), func(x, y sent) int { return int(x.Cost - y.Cost) })
}

func TestCostsGoSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 10_000}
		f := b.flights()
		began := time.Now()
		all := []<-chan outcome{do(f, t.Context(), 1)}
		want := []sent{{1, 1}}
		for cost := range int64(100) { // many more than there are round trips in the timeout
			all = append(all, do(f, t.Context(), cost+2))
			want = append(want, sent{cost + 2, 1})
		}
		for i, c := range all {
			if got := <-c; got.err != nil || !got.Allowed() {
				t.Errorf("caller %d: got %+v, want allowed", i, got)
			}
		}
		if got := time.Since(began); got != roundTrip {
			t.Errorf("all were answered after %v, want %v", got, roundTrip)
		}
		if diff := cmp.Diff(want, b.sorted()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestVersionsGoSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 10}
		f := b.flights()
		first := do(f, t.Context(), 1)
		second := do(f, t.Context(), 1)
		other := Key{Spec: &Spec{Policy: 1, Version: 2}, Subject: "a"}
		if _, err := f.Do(t.Context(), timeout, other, 1, ""); err != nil {
			t.Error(err)
		}
		<-first
		<-second
		if diff := cmp.Diff([]sent{{1, 1}, {1, 1}, {1, 1}}, b.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// However many come at once, Redis decides about each.
func TestAnyNumberMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 100}
		f := b.flights()
		const callers = 20_000
		got := make(chan outcome, callers)
		for range callers {
			go func() {
				share, err := f.Do(t.Context(), timeout, keyA, 1, "")
				got <- outcome{share, err}
			}()
		}
		allowed := 0
		for range callers {
			switch o := <-got; {
			case o.err != nil:
				t.Fatal(o.err)
			case o.Allowed():
				allowed++
			}
		}
		if allowed != 100 {
			t.Errorf("%d allowed, want 100", allowed)
		}
	})
}

func TestAWaiterWhoLeavesUnsentIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 10}
		f := b.flights()
		first := do(f, t.Context(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		leaver := do(f, ctx, 1)
		cancel()
		got := <-leaver
		if w, ok := errors.AsType[*WaitError](got.err); !ok || w.Sent || !errors.Is(got.err, context.Canceled) {
			t.Errorf("got %v, want canceled before it was sent", got.err)
		}
		<-first
		synctest.Wait()
		if diff := cmp.Diff([]sent{{1, 1}}, b.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestUnitsOfAWaiterWhoHasGoneServeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 3}
		f := b.flights()
		first := do(f, t.Context(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		leaver, stayer := do(f, ctx, 1), do(f, t.Context(), 1)
		<-first
		synctest.Wait() // both are under way
		next, last := do(f, t.Context(), 1), do(f, t.Context(), 1)
		cancel()
		got := <-leaver
		if w, ok := errors.AsType[*WaitError](got.err); !ok || !w.Sent {
			t.Errorf("leaver: got %v, want a WaitError, sent", got.err)
		}
		for name, c := range map[string]<-chan outcome{"stayer": stayer, "next": next} {
			if got := <-c; got.err != nil || !got.Allowed() || got.Count != 2 {
				t.Errorf("%s: got %+v, want one of two granted", name, got)
			}
		}
		if got := <-last; got.err != nil || got.Allowed() {
			t.Errorf("last: got %+v, want a denial", got)
		}
		if b.given != 0 || b.units != 0 {
			t.Errorf("given back %d, left %d: want 0, 0", b.given, b.units)
		}
	})
}

// One of a wave leaves: its unit serves one of the next, under the last number, and
// the other goes on by itself.
func TestNoMoreAreServedThanHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 10}
		f := b.flights()
		ctx, leave := context.WithCancel(t.Context())
		first := do(f, t.Context(), 1)
		wave := []<-chan outcome{do(f, ctx, 1), do(f, t.Context(), 1), do(f, t.Context(), 1)}
		<-first
		synctest.Wait() // and the wave is under way
		next := []<-chan outcome{do(f, t.Context(), 1), do(f, t.Context(), 1)}
		leave()
		<-wave[0]
		for i, c := range slices.Concat(wave[1:], next[:1]) {
			if got, want := <-c, (Share[int64]{Reply: 6, Count: 3, Granted: 3, Index: int64(i)}); got.err != nil || got.Share != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		if got, want := <-next[1], (Share[int64]{Reply: 5, Count: 1, Granted: 1}); got.err != nil || got.Share != want {
			t.Errorf("the last: got %+v, want %+v", got, want)
		}
		if diff := cmp.Diff([]sent{{1, 1}, {1, 3}, {1, 1}}, b.calls); diff != "" || b.given != 0 {
			t.Errorf("%d given back, calls (-want +got):\n%s", b.given, diff)
		}
	})
}

// Who closes waits for what is given back of the last flight.
func TestCloseGivesBackWhatServesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 10}
		f := b.flights()
		ctx, leave := context.WithCancel(t.Context())
		first, gone := do(f, t.Context(), 1), do(f, ctx, 1)
		<-first
		synctest.Wait()
		leave()
		<-gone
		if err := f.Close(t.Context()); err != nil || b.given != 1 {
			t.Errorf("%v, and %d units given back; want 1", err, b.given)
		}
	})
}

// All of a wave leave once it was sent: those who wait for the next wait on.
func TestAWaveThatAllHaveLeftHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 2}
		f := b.flights()
		ctx, leave := context.WithCancel(t.Context())
		first := do(f, t.Context(), 1)
		gone := do(f, ctx, 1)
		<-first
		synctest.Wait()
		next := []<-chan outcome{do(f, t.Context(), 1), do(f, t.Context(), 1)}
		leave()
		<-gone
		for i, c := range next { // by the unit of who has gone, and by a call that finds none left
			if got := <-c; got.err != nil || got.Allowed() != (i == 0) {
				t.Errorf("caller %d: got %+v, want the first allowed and the second not", i, got)
			}
		}
	})
}

func TestUnitsThatServeNobodyAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 20}
		f := b.flights()
		first := do(f, t.Context(), 3)
		ctx, cancel := context.WithCancel(t.Context())
		leavers := []<-chan outcome{do(f, ctx, 3), do(f, ctx, 3)}
		stayer := do(f, t.Context(), 3)
		<-first
		synctest.Wait()
		other := do(f, t.Context(), 2) // of another cost
		cancel()
		for _, c := range append(leavers, stayer, other) {
			<-c
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if b.given != 6 {
			t.Errorf("given back %d units, want 6", b.given)
		}
	})
}

func TestAFlightThatFailsFailsForAllInItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{fail: errors.New("away")}
		f := b.flights()
		first := do(f, t.Context(), 1)
		second, third := do(f, t.Context(), 1), do(f, t.Context(), 1)
		for _, c := range []<-chan outcome{first, second, third} {
			if got := <-c; !errors.Is(got.err, b.fail) {
				t.Errorf("got %v, want %v", got.err, b.fail)
			}
		}
		if diff := cmp.Diff([]sent{{1, 1}, {1, 2}}, b.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		b.fail, b.units = nil, 1
		if got := <-do(f, t.Context(), 1); got.err != nil || !got.Allowed() {
			t.Errorf("the next: got %+v, want allowed", got)
		}
	})
}

func TestThoseWhoWaitForALateCallGetItsErrorAndTheNextFlightStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stall atomic.Bool
		stall.Store(true)
		f := NewFlights(FlightConfig[string, int64]{
			Send: func(_ context.Context, deadline time.Time, _ string, _, count int64) (int64, int64, error) {
				if stall.Load() {
					time.Sleep(time.Until(deadline))
					return 0, 0, context.DeadlineExceeded
				}
				return 0, count, nil
			},
		})
		began := time.Now()
		first := do(f, t.Context(), 1)
		time.Sleep(timeout / 2)
		second := do(f, t.Context(), 1) // waits for the first's call
		<-first
		got := <-second
		if w, ok := errors.AsType[*WaitError](got.err); !ok || w.Sent || !errors.Is(w, context.DeadlineExceeded) {
			t.Errorf("second: got %v, want the first's deadline, not sent", got.err)
		}
		if got := time.Since(began); got != timeout {
			t.Errorf("both left after %v, want %v", got, timeout)
		}
		stall.Store(false)
		third := do(f, t.Context(), 1)
		if got := <-third; got.err != nil || !got.Allowed() {
			t.Errorf("third: got %+v, want allowed", got)
		}
		if got := time.Since(began); got != timeout {
			t.Errorf("third was answered after %v, want %v", got, timeout)
		}
	})
}

// The call under way is later than it may be.
func TestAWaiterLeavesSoonAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFlights(FlightConfig[string, int64]{
			Send: func(_ context.Context, _ time.Time, _ string, _, count int64) (int64, int64, error) {
				time.Sleep(2 * timeout)
				return 0, count, nil
			},
		})
		began := time.Now()
		first := do(f, t.Context(), 1)
		synctest.Wait()
		got := <-do(f, t.Context(), 1)
		if w, ok := errors.AsType[*WaitError](got.err); !ok || w.Sent || !errors.Is(w, context.DeadlineExceeded) {
			t.Errorf("got %v, want its deadline, not sent", got.err)
		}
		if got, want := time.Since(began), timeout+lag; got != want {
			t.Errorf("left after %v, want %v", got, want)
		}
		<-first
	})
}

// Those who wait hear why the call failed, even if it comes back a little late.
func TestThoseWhoWaitHearOfACallThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		f := NewFlights(FlightConfig[string, int64]{
			Send: func(_ context.Context, deadline time.Time, _ string, _, _ int64) (int64, int64, error) {
				time.Sleep(time.Until(deadline) + lag/2)
				return 0, 0, away
			},
		})
		first, second := do(f, t.Context(), 1), do(f, t.Context(), 1)
		<-first
		if got := <-second; !errors.Is(got.err, away) {
			t.Errorf("got %v, want %v", got.err, away)
		}
	})
}

func TestAFlightOutlivesTheCallerWhoBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 2}
		f := b.flights()
		ctx, cancel := context.WithCancel(t.Context())
		first, second := do(f, ctx, 1), do(f, t.Context(), 1)
		cancel()
		if got := <-first; !errors.Is(got.err, context.Canceled) {
			t.Errorf("first: got %v, want canceled", got.err)
		}
		if got := <-second; got.err != nil || !got.Allowed() {
			t.Errorf("second: got %+v, want allowed", got)
		}
	})
}

func TestCloseWaitsForTheFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{units: 10}
		f := b.flights()
		first, second := do(f, t.Context(), 1), do(f, t.Context(), 1)
		<-first
		synctest.Wait() // the second is under way
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case got := <-second:
			if got.err != nil {
				t.Error(got.err)
			}
		default:
			t.Error("Close returned before the flight had landed")
		}
		third, fourth := do(f, t.Context(), 1), do(f, t.Context(), 1)
		if got := <-third; got.err != nil {
			t.Errorf("alone after Close: %v", got.err)
		}
		if got := <-fourth; !errors.Is(got.err, ErrClosed) {
			t.Errorf("waiting after Close: got %v, want ErrClosed", got.err)
		}
	})
}

func TestALoneCallAllocatesNothing(t *testing.T) {
	f := NewFlights(FlightConfig[string, int64]{
		Send: func(context.Context, time.Time, string, int64, int64) (int64, int64, error) { return 0, 1, nil },
	})
	ctx := t.Context()
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := f.Do(ctx, timeout, keyA, 1, ""); err != nil {
			t.Error(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

// Callers with contexts that end at any time: what was taken is what those have
// who were told so, and what was given back.
func TestFlightsLoseNothingOfCallersWhoGo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) { flyAndGo(t, seed) })
}

func flyAndGo(t *testing.T, seed uint64) {
	const units = 1 << 30
	b := &bank{units: units}
	f := b.flights()
	var admitted atomic.Int64
	var group sync.WaitGroup
	for g := range uint64(16) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, g))
			for range 200 {
				patience := time.Duration(random.Int64N(int64(3 * roundTrip)))
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				cost := 1 + random.Int64N(2)
				share, err := f.Do(ctx, timeout, keyA, cost, "")
				if err == nil && share.Allowed() {
					admitted.Add(cost)
				}
				cancel()
			}
		})
	}
	group.Wait()
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if taken := units - b.units; taken != admitted.Load()+b.given {
		t.Errorf("taken %d, but admitted %d and given back %d", taken, admitted.Load(), b.given)
	}
	if b.given == 0 || b.overlaps != 0 {
		t.Errorf("given back %d, want some; %d calls overlapped", b.given, b.overlaps)
	}
}

func BenchmarkFlightsAlone(b *testing.B) {
	f := NewFlights(FlightConfig[string, int64]{
		Send: func(context.Context, time.Time, string, int64, int64) (int64, int64, error) { return 0, 1, nil },
	})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = f.Do(b.Context(), timeout, keyA, 1, "")
	}
}
