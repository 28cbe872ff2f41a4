package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is Breakers on shards whose state the test sets.
type bench struct {
	*Breakers
	t  *testing.T
	mu sync.Mutex

	shards []string
	down   map[string]error // what a probe of the shard says
	probes []time.Duration  // when they were, since the start
	loads  int
	told   []string
	start  time.Time
}

// newBench starts with the topology known and nothing left to do.
func newBench(t *testing.T, o Options, shards ...string) *bench {
	t.Helper()
	b := &bench{t: t, shards: shards, down: map[string]error{}, start: time.Now()}
	o.Notify = b.tell
	b.Breakers = NewBreakers(o)
	b.Watch(b)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	b.Report(shards[0], 1, nil)
	b.wantIdleAfter(100 * time.Millisecond)
	b.start = time.Now()
	return b
}

func (b *bench) Reload(context.Context) { b.set(func() { b.loads++ }) }

func (b *bench) Shards() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.shards)
}

func (b *bench) Probe(ctx context.Context, shard string) error {
	var err error
	b.set(func() {
		b.probes = append(b.probes, time.Since(b.start))
		err = b.down[shard]
	})
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return &Error{Class: NeverRan, Err: ctx.Err()}
	}
	return err
}

// errHangs makes a probe wait for its context's end.
var errHangs = errors.New("hangs")

func (b *bench) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *bench) tell(e Event) {
	line := fmt.Sprint(e.Kind, " ", e.Shard)
	if e.Gone {
		line += " gone"
	}
	switch e.Kind {
	case Closed:
		line += fmt.Sprint(" after ", e.Lasted)
	case FallbackEnded:
		line += fmt.Sprint(" after ", e.Lasted, e.Calls)
	case TopologyChanged:
		line += fmt.Sprint(e.Shards)
	case Opened, FallbackBegan, Misconfigured:
		line += fmt.Sprint(": ", e.Err.Err)
	}
	b.set(func() { b.told = append(b.told, line) })
}

// wantTold checks what was told since it was asked last.
func (b *bench) wantTold(want ...string) {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.told); diff != "" {
		b.t.Errorf("told (-want +got):\n%s", diff)
	}
	b.told = nil
}

// wantIdleAfter lets time pass and checks that the goroutine has ended.
func (b *bench) wantIdleAfter(d time.Duration) {
	b.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	b.Breakers.mu.Lock()
	defer b.Breakers.mu.Unlock()
	if b.done != nil {
		b.t.Errorf("after %v the goroutine still runs", d)
	}
}

func (b *bench) reports(shard string, n int, err *Error) {
	for range n {
		b.Report(shard, 1, err)
	}
}

func (b *bench) wantOpen(shard string, want bool) {
	b.t.Helper()
	if got := b.Open(shard); got != want {
		b.t.Errorf("Open(%s) = %t, want %t", shard, got, want)
	}
}

var (
	refused = &Error{Class: NeverRan, Err: errors.New("refused")}
	lost    = &Error{Class: Unknown, Err: io.EOF}
)

func TestBreakerOpensOnARatioOfTheLeastNumberOfCalls(t *testing.T) {
	tests := []struct {
		name      string
		options   Options
		failures  int
		successes int
		want      bool
	}{
		{"too few calls", Options{}, 19, 0, false},
		{"all fail", Options{}, 20, 0, true},
		{"half fail", Options{}, 10, 10, true},
		{"fewer than half fail", Options{}, 9, 11, false},
		{"many calls, fewer than half fail", Options{}, 90, 110, false},
		{"another ratio", Options{FailureRatio: 0.9}, 17, 3, false},
		{"another number", Options{MinCalls: 3}, 3, 0, true},
		{"never", Options{NeverOpen: true}, 1000, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.options, "a", "b")
				b.down["a"] = refused
				b.reports("a", 1, refused)
				b.reports("a", tt.successes, nil)
				b.reports("a", tt.failures-1, lost)
				b.wantOpen("a", tt.want)
				b.wantOpen("b", false)
			})
		})
	}
}

func TestBreakerForgetsCallsOlderThanAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a")
		b.down["a"] = refused
		for range 10 {
			b.reports("a", 10, refused)
			b.reports("a", 11, nil)
			b.wantOpen("a", false)
			time.Sleep(2 * time.Second)
		}
		b.reports("a", 19, refused)
		b.wantOpen("a", false)
		b.reports("a", 1, refused)
		b.wantOpen("a", true)
	})
}

// What a healthy shard answered long before does not hold the breaker back.
func TestBreakerCountsFromTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a")
		b.down["a"] = refused
		b.reports("a", 1_000_000, nil)
		b.reports("a", 20, refused)
		b.wantOpen("a", true)
	})
}

func TestWhatIsNotTheShardsDelayLeavesTheBreakerAlone(t *testing.T) {
	for _, err := range []*Error{
		{Class: Caller, Err: context.Canceled},
		{Class: Configuration, Err: errors.New("NOPERM no permission")},
		{Class: NeverRan, Err: errors.New("OOM command not allowed")},
		{Class: NeverRan, Err: errors.New("NOREPLICAS Not enough good replicas to write")},
		{Class: NeverRan, Err: errors.New("MISCONF Errors writing to the AOF file")},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Options{}, "a")
			b.reports("a", 100, err)
			if b.Open("a") {
				t.Errorf("100 times %v: the breaker is open", err)
			}
		})
	}
}

func TestOpenShardIsProbedUntilItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a", "b")
		b.down["a"] = refused
		loads := b.loads
		b.reports("a", 20, refused)
		for range 5 {
			b.wantOpen("a", true)
		}
		b.wantTold("fallback began a: refused", "breaker opened a: refused")
		time.Sleep(350 * time.Millisecond)
		b.set(func() { delete(b.down, "a") })
		b.Report("a", 1, nil) // was under way
		b.wantOpen("a", true)
		b.wantTold()
		time.Sleep(50 * time.Millisecond)
		b.wantTold("breaker closed a after 400ms")
		b.wantOpen("a", false)

		const tick = 100 * time.Millisecond
		if diff := cmp.Diff([]time.Duration{0, tick, 2 * tick, 3 * tick, 4 * tick}, b.probes); diff != "" {
			t.Errorf("probes (-want +got):\n%s", diff)
		}
		if n := b.loads - loads; n != 5 {
			t.Errorf("the topology was loaded %d times, want as often as was probed", n)
		}
		b.wantIdleAfter(1100 * time.Millisecond)
		b.wantTold("fallback ended a after 1.4s {20 0 6}")
	})
}

func TestOneGoroutineProbesAllShardsThatAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a", "b", "c")
		b.down["a"], b.down["b"] = refused, refused
		b.reports("a", 20, refused)
		synctest.Wait()
		time.Sleep(30 * time.Millisecond)
		b.reports("b", 20, lost)
		synctest.Wait()
		if n := len(b.probes); n != 3 { // a at once, then a and b
			t.Errorf("%d probes, want 3", n)
		}
		b.wantTold(
			"fallback began a: refused", "breaker opened a: refused",
			"fallback began b: EOF", "breaker opened b: EOF")
		b.set(func() { clear(b.down) })
		time.Sleep(100 * time.Millisecond)
		b.set(func() { slices.Sort(b.told) }) // the two are asked side by side
		b.wantTold("breaker closed a after 100ms", "breaker closed b after 70ms")
	})
}

// A shard that hangs keeps neither another's breaker open nor its successor
// waiting.
func TestProbeThatHangsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{ProbeTimeout: time.Second}, "a", "b")
		b.down["a"], b.down["b"] = errHangs, refused
		b.reports("a", 20, lost)
		b.reports("b", 20, lost)
		time.Sleep(250 * time.Millisecond)
		b.set(func() { b.told, b.shards = nil, []string{"b", "c"} })
		time.Sleep(50 * time.Millisecond)
		b.wantTold("breaker closed a gone after 300ms", "fallback ended a gone after 300ms {0 20 0}", "topology changed [b c]")
		b.set(func() { clear(b.down) })
		time.Sleep(time.Second)
		b.wantOpen("b", false)
	})
}

// An error that its callers must see is no reason to keep them from it.
func TestProbeThatMeetsAMisconfigurationClosesTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a")
		b.down["a"] = &Error{Class: Configuration, Err: errors.New("NOPERM no permission")}
		b.reports("a", 20, refused)
		b.wantTold("fallback began a: refused", "breaker opened a: refused", "breaker closed a after 0s")
	})
}

func TestBreakerOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a")
		for range 3 {
			b.reports("a", 20, refused)
			synctest.Wait()
			b.wantOpen("a", false) // the first probe was answered
			b.reports("a", 19, refused)
			b.wantOpen("a", false) // counted anew
			time.Sleep(3 * time.Second)
		}
	})
}

func TestShardThatServesNothingIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a", "b")
		b.down["a"] = refused
		b.reports("a", 20, refused)
		time.Sleep(150 * time.Millisecond)
		b.wantTold("fallback began a: refused", "breaker opened a: refused")
		b.set(func() { b.shards = []string{"b", "c"} })
		time.Sleep(50 * time.Millisecond)
		b.wantTold("breaker closed a gone after 200ms", "fallback ended a gone after 200ms {20 0 0}", "topology changed [b c]")
		b.wantOpen("a", false)
		b.wantOpen("c", false)

		b.reports("a", 100, refused) // those that were under way
		time.Sleep(100 * time.Millisecond)
		b.wantOpen("a", false)
		b.wantTold()
		if got := names(b.States()); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("States of %v, want of b and c", got)
		}
		b.wantIdleAfter(100 * time.Millisecond)
	})
}

func names(states []State) []string {
	var all []string
	for _, s := range states {
		all = append(all, s.Shard)
	}
	return all
}

func TestAnswerOfANewShardShowsThatTheTopologyChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a", "b")
		b.set(func() { b.shards = []string{"c", "a"} })
		b.Report("c", 1, nil)
		b.wantTold("topology changed [a c]")
		if got := names(b.States()); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("States of %v, want of a and c", got)
		}
		b.wantIdleAfter(200 * time.Millisecond)
	})
}

func TestWithoutATopologyThereIsABreakerToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, down: map[string]error{"": refused}, start: time.Now()}
		b.Breakers = NewBreakers(Options{Notify: b.tell})
		b.Watch(b)
		b.reports("", 20, refused)
		synctest.Wait()
		b.wantOpen("", true)
		b.set(func() { b.shards, b.down = []string{"a"}, nil })
		time.Sleep(100 * time.Millisecond)
		b.wantTold("fallback began : refused", "breaker opened : refused", "breaker closed  after 100ms")
		b.wantOpen("", false)
		b.wantIdleAfter(1100 * time.Millisecond)
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestMisconfigurationIsToldOnceForEachCodeAndShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a", "b")
		for range 3 {
			for _, shard := range []string{"a", "b"} {
				b.Report(shard, 1, &Error{Class: Configuration, Err: errors.New("NOPERM one")})
				b.Report(shard, 1, &Error{Class: Configuration, Err: errors.New("WRONGTYPE two")})
			}
		}
		b.wantTold("misconfigured a: NOPERM one", "misconfigured a: WRONGTYPE two",
			"misconfigured b: NOPERM one", "misconfigured b: WRONGTYPE two")
		b.wantIdleAfter(200 * time.Millisecond)
	})
}

func TestFallbackIsOneHoweverManyCallsAreInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a")
		for range 30 {
			b.Report("a", 1, lost)
			b.reports("a", 9, nil)
			time.Sleep(100 * time.Millisecond)
		}
		if s := b.States()[0]; !s.Failing || s.Err != lost || s.Calls != (Unanswered{Unknown: 30}) || s.Open {
			t.Errorf("State = %+v, want it closed and failing, 30 calls unknown", s)
		}
		b.wantIdleAfter(1100 * time.Millisecond)
		b.wantTold("fallback began a: EOF", "fallback ended a after 3.9s {0 30 0}")
		if s := b.States()[0]; s.Failing || s.Err != nil || s.Calls != (Unanswered{}) {
			t.Errorf("State = %+v, want it well", s)
		}
	})
}

func TestCloseTellsWhatHappenedAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{}, "a")
		b.down["a"] = refused
		b.reports("a", 20, refused)
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantTold("fallback began a: refused", "breaker opened a: refused")
		b.wantIdleAfter(0)
		b.reports("a", 20, refused)
		b.wantTold()
		b.wantIdleAfter(0)
	})
}

func TestCloseWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := NewBreakers(Options{})
		b.Watch(stuck{release})
		b.Report("a", 1, refused)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v, want %v", err, context.DeadlineExceeded)
		}
		close(release)
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close, once it can end: %v", err)
		}
	})
}

// stuck is a cluster that heeds no context.
type stuck struct{ release chan struct{} }

func (s stuck) Reload(context.Context)              { <-s.release }
func (s stuck) Shards() []string                    { return nil }
func (s stuck) Probe(context.Context, string) error { return nil }

func TestBreakersAreSafeForConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{MinCalls: 5}, "a", "b", "c")
		b.down["a"] = refused
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := range 500 {
					shard := []string{"a", "b", "c", "d", ""}[(i+n)%5]
					if b.Open(shard) {
						time.Sleep(time.Millisecond)
						continue
					}
					b.Report(shard, 1, []*Error{nil, refused, lost}[n%3])
					b.States()
				}
			})
		}
		all.Wait()
		b.set(func() { clear(b.down) })
		b.wantIdleAfter(3 * time.Second)
		for _, shard := range []string{"a", "b", "c", ""} {
			b.wantOpen(shard, false)
		}
		if n := b.open.Load(); n != 0 {
			t.Errorf("%d breakers are open by the count", n)
		}
	})
}

func BenchmarkBreakers(b *testing.B) {
	const addr = "10.0.0.1:6379"
	br := NewBreakers(Options{})
	br.shards.Store(&map[string]*shard{addr: newShard(addr, br.opts, time.Now())})
	b.Run("healthy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if br.Open(addr) {
				b.Fatal("open")
			}
			br.Report(addr, 1, nil)
		}
	})
}
