package memory

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// t0 is 2030-01-01 in µs.
const t0 = 1893456000 * second

// plans are one of each kind, of five units in 10 s.
var plans = map[string]*scripts.Plan{
	"token_bucket":   scripts.NewPlan(rule.Limit{Algorithm: rule.TokenBucket, Rate: 5, Period: 10 * second, Burst: 5}),
	"gcra":           scripts.NewPlan(rule.Limit{Algorithm: rule.GCRA, Rate: 5, Period: 10 * second, Burst: 5}),
	"sliding_window": scripts.NewPlan(rule.Limit{Algorithm: rule.SlidingWindow, Rate: 5, Period: 10 * second}),
	"sliding_log":    scripts.NewPlan(rule.Limit{Algorithm: rule.SlidingLog, Rate: 5, Period: 10 * second}),
	"fixed_window":   scripts.NewPlan(rule.Limit{Algorithm: rule.FixedWindow, Rate: 5, Period: 10 * second}),
	"several": scripts.NewPlan(
		rule.Limit{Algorithm: rule.TokenBucket, Rate: 5, Period: 10 * second, Burst: 5},
		rule.Limit{Algorithm: rule.FixedWindow, Rate: 5, Period: 10 * second},
	),
}

// clocked is a store under a clock that stands still until it is set. Entries
// end by it, as they do by the real one.
type clocked struct {
	*Store
	now atomic.Int64
}

func newClocked() *clocked {
	s := &clocked{Store: New()}
	s.clock = s.now.Load
	s.now.Store(t0)
	return s
}

// do makes a call, which must not fail.
func (s *clocked) do(t *testing.T, op scripts.Op, p *scripts.Plan, key string, cost int64) scripts.Reply {
	t.Helper()
	c := &scripts.Call{Plan: p, Op: op, Key: key, Cost: cost, Count: 1, Nonce: nonces.Add(1)}
	reply, err := s.Do(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

var nonces atomic.Uint64

// ends is when, in µs after it was charged once at t0, each kind's entry ends.
var ends = map[string]int64{
	"token_bucket":   2 * second,
	"gcra":           2 * second,
	"sliding_window": 20 * second,
	"sliding_log":    10 * second,
	"fixed_window":   20 * second, // a period after its window
	"several":        20 * second,
}

func TestAnEntryIsMissingOnceItHasEnded(t *testing.T) {
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			s := newClocked()
			s.do(t, scripts.Take, p, "a", 1)
			s.now.Store(t0 + ends[name] - 1)
			s.do(t, scripts.Peek, p, "a", 1)
			if name == "fixed_window" {
				s.now.Store(t0) // the window whose key it is
				s.do(t, scripts.Peek, p, "a", 1)
			}
			if n := s.Len(); n != 1 {
				t.Fatalf("1 µs before its end %d entries are held, want 1", n)
			}
			s.now.Store(t0 + ends[name])
			for i := range 2000 { // enough that each shard has met each of its entries
				s.do(t, scripts.Take, p, strconv.Itoa(i), 1)
			}
			if n := s.Len(); n != 2000 {
				t.Errorf("%d entries are held, want the 2,000 that have not ended", n)
			}
		})
	}
}

// However many subjects come, each once, no more are held than have not ended
// and half as many again.
func TestEndedEntriesDoNotPileUp(t *testing.T) {
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			s := newClocked()
			const every = 5000 // µs
			alive := ends[name] / every
			for i := range 6 * alive {
				s.now.Store(t0 + i*every)
				s.do(t, scripts.Take, p, strconv.FormatInt(i, 10), 1)
				if n := int64(s.Len()); i%1000 == 0 && n > alive+alive/2+64 {
					t.Fatalf("after %d subjects %d entries are held, of which %d have not ended", i, n, alive)
				}
			}
		})
	}
}

func TestWhatChangesNothingHoldsNothing(t *testing.T) {
	for name, p := range plans {
		s := newClocked()
		s.do(t, scripts.Peek, p, "a", 1)
		s.do(t, scripts.Take, p, "a", 6) // more than can ever pass
		s.do(t, scripts.Reset, p, "a", 1)
		give := &scripts.Call{Plan: p, Op: scripts.Give, Key: "a", Receipt: scripts.Receipt{Now: t0, Granted: 1, At: []float64{t0, t0}}}
		if r, err := s.Do(t.Context(), give); err != nil || r.Granted != 0 {
			t.Errorf("%s: Give to nothing = %+v, %v", name, r, err)
		}
		if n := s.Len(); n != 0 {
			t.Errorf("%s: %d entries are held, want none", name, n)
		}
	}
}

func TestCloseForgetsEverything(t *testing.T) {
	s := newClocked()
	for name, p := range plans {
		s.do(t, scripts.Take, p, name, 5)
	}
	if n := s.Len(); n != len(plans) {
		t.Errorf("%d entries are held, want %d", n, len(plans))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := s.Len(); n != 0 {
		t.Errorf("after Close %d entries are held", n)
	}
}

func TestAContextThatHasEndedChargesNothing(t *testing.T) {
	s := newClocked()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &scripts.Call{Plan: plans["gcra"], Key: "a", Cost: 1, Count: 1}
	if r, err := s.Do(ctx, c); !errors.Is(err, context.Canceled) || r.Granted != 0 || s.Len() != 0 {
		t.Errorf("Do = %+v, %v, and %d entries; want Canceled and none", r, err, s.Len())
	}
}

// Many callers at a few keys, while entries end and all is looked at: the race
// detector looks on, and no key grants more than it has.
func TestManyCallersAtOnce(t *testing.T) {
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			s := newClocked()
			var granted [3]atomic.Int64
			var all sync.WaitGroup
			for w := range 8 {
				all.Go(func() {
					for i := range 300 {
						key := i % len(granted)
						r := s.do(t, scripts.Take, p, "key"+strconv.Itoa(key), 1)
						granted[key].Add(r.Granted)
						s.do(t, scripts.Take, p, strconv.Itoa(w*1000+i), 1)
						s.Len()
					}
				})
			}
			all.Wait()
			for key := range granted {
				if got := granted[key].Load(); got != 5 {
					t.Errorf("key %d: %d granted, want 5", key, got)
				}
			}
		})
	}
}

// The log's members are ordered as Redis orders them: of one µs and nonce, "10"
// comes before "2". A refund takes the receipt's own and no others.
func TestALogGivesBackItsOwnEntries(t *testing.T) {
	p := scripts.NewPlan(rule.Limit{Algorithm: rule.SlidingLog, Rate: 30, Period: 10 * second})
	s := newClocked()
	s.do(t, scripts.Take, p, "a", 12)
	mine := &scripts.Call{Plan: p, Key: "a", Cost: 11, Count: 1, Nonce: 7}
	if _, err := s.Do(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	s.now.Add(second)
	s.do(t, scripts.Take, p, "a", 5)
	give := &scripts.Call{Plan: p, Op: scripts.Give, Key: "a", Receipt: scripts.Receipt{Now: t0, Granted: 11, Nonce: 7}}
	for i, want := range []int64{1, 0} { // the second finds nothing
		if r, err := s.Do(t.Context(), give); err != nil || r.Granted != want {
			t.Errorf("Give, time %d = %+v, %v; want %d", i+1, r, err, want)
		}
	}
	r := s.do(t, scripts.Peek, p, "a", 1)
	if want := (rule.State{Used: 17, At: t0 + second}); r.State(0) != want {
		t.Errorf("Peek = %+v, want %+v", r.State(0), want)
	}
	s.now.Store(t0 + 10*second)
	if r := s.do(t, scripts.Peek, p, "a", 1); r.State(0).Used != 5 {
		t.Errorf("once the first have left: %+v, want 5 used", r.State(0))
	}
}

// A log drops what has left its window as it is charged: a unit takes up to 65
// with it.
func TestALogDropsWhatHasLeft(t *testing.T) {
	p := scripts.NewPlan(rule.Limit{Algorithm: rule.SlidingLog, Rate: 1000, Period: 10 * second})
	s := newClocked()
	s.do(t, scripts.Take, p, "a", 1000)
	s.now.Store(t0 + 9*second)
	s.do(t, scripts.Peek, p, "a", 1)
	for i := range int64(16) {
		s.now.Store(t0 + 10*second + i)
		s.do(t, scripts.Charge, p, "a", 1)
	}
	if n := s.members("a"); n != 16 {
		t.Errorf("%d entries are held, want the 16 that count", n)
	}
}

// members returns the size of a log.
func (s *clocked) members(key string) int {
	for i := range s.shards {
		if e := s.shards[i].entries[entryKey{name: key}]; e != nil {
			return len(e.log)
		}
	}
	return 0
}

// A reset and the charges about it may share a µs. Which came first is not
// known then, and a receipt of it gives nothing.
func TestAReceiptOfTheResetsOwnMicrosecondGivesNothing(t *testing.T) {
	for name, p := range plans {
		if name == "gcra" || name == "sliding_log" { // has no room for the mark; needs none
			continue
		}
		for _, tt := range []struct{ charged, left int64 }{{0, 0}, {1, 5}} {
			s := newClocked()
			s.do(t, scripts.Take, p, "a", 3)
			s.do(t, scripts.Reset, p, "a", 1)
			s.now.Store(t0 + tt.charged)
			r := s.do(t, scripts.Take, p, "a", 5)
			give := &scripts.Call{Plan: p, Op: scripts.Give, Key: "a", Window: int64(r.State(0).At)}
			give.Receipt = scripts.Receipt{Now: r.Now, Granted: 5, At: []float64{r.State(0).At, t0 / 10 / second}}
			if _, err := s.Do(t.Context(), give); err != nil {
				t.Fatal(err)
			}
			after := s.do(t, scripts.Peek, p, "a", 1)
			for i, l := range p.Limits() {
				if left := l.Remaining(after.State(i), after.Now); left != tt.left {
					t.Errorf("%s: charged %d µs after the reset and given back: %d remain, want %d", name, tt.charged, left, tt.left)
				}
			}
		}
	}
}

// A call that read the clock before its turn would decide at a time before that
// of a call that went first, and miss an entry that the other had swept.
func TestCallsOfAKeyDecideInTheOrderOfTheirTimes(t *testing.T) {
	s := New()
	s.clock = func() int64 {
		held := 0
		for i := range s.shards {
			if mu := &s.shards[i].mu; mu.TryLock() {
				mu.Unlock()
			} else {
				held++
			}
		}
		if held != 1 {
			t.Errorf("the clock is read while %d shards are held, want the key's own", held)
		}
		return t0
	}
	call := &scripts.Call{Plan: plans["token_bucket"], Op: scripts.Take, Key: "a", Cost: 1, Count: 1}
	if _, err := s.Do(t.Context(), call); err != nil {
		t.Fatal(err)
	}
}
