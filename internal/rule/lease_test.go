package rule_test

import (
	"math"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rule"
)

const ms = 1000 // µs

// Limits of 1,000 units a second that can be leased. An epoch and a window begin
// at t0.
var (
	leasedBucket  = rule.Limit{Algorithm: rule.TokenBucket, Rate: 1000, Period: s, Burst: 1000}
	leasedSliding = rule.Limit{Algorithm: rule.SlidingWindow, Rate: 1000, Period: s}
	leasedFixed   = rule.Limit{Algorithm: rule.FixedWindow, Rate: 1000, Period: s}
)

func TestLeasable(t *testing.T) {
	for _, tt := range []struct {
		limit rule.Limit
		want  bool
	}{
		{leasedBucket, true},
		{rule.Limit{Algorithm: rule.TokenBucket, Rate: 1000, Period: s, Burst: 800}, true},
		{rule.Limit{Algorithm: rule.TokenBucket, Rate: 1000, Period: s, Burst: 799}, false},
		{rule.Limit{Algorithm: rule.TokenBucket, Rate: 1e9, Period: 1000, Burst: 1e9}, false},
		{rule.Limit{Algorithm: rule.TokenBucket, Rate: 1, Period: year, Burst: 1}, true},
		{leasedSliding, true},
		{rule.Limit{Algorithm: rule.SlidingWindow, Rate: 1e6, Period: s - 1}, false},
		{leasedFixed, true},
		{short, false},
		{gcra, false},
		{log, false},
	} {
		if got := tt.limit.Leasable(); got != tt.want {
			t.Errorf("%+v: Leasable = %t, want %t", tt.limit, got, tt.want)
		}
	}
}

// Of 300 units used 100 are lent in this epoch, which ends 200 ms after t0, and
// 150 in the one before.
func TestWhatIsLentHoldsUpWhatIsUsed(t *testing.T) {
	state := rule.State{At: t0, Used: 300 * s, Lent: 100, Before: 150}
	for _, tt := range []struct{ after, used, lent, before int64 }{
		{0, 300, 100, 150},
		{40 * ms, 260, 100, 150},
		{150 * ms, 250, 100, 150},
		{200 * ms, 250, 0, 100},
		{300 * ms, 150, 0, 100},
		{399 * ms, 100, 0, 100},
		{400 * ms, 100, 0, 0},
		{460 * ms, 40, 0, 0},
		{hour, 0, 0, 0},
	} {
		got, _ := leasedBucket.Current(state, t0+tt.after)
		if got.Used != float64(tt.used*s) || got.Lent != float64(tt.lent) || got.Before != float64(tt.before) {
			t.Errorf("after %d µs %v are used, %v and %v lent; want %d, %d and %d", tt.after, got.Used/s, got.Lent, got.Before, tt.used, tt.lent, tt.before)
		}
		if left := leasedBucket.Remaining(state, t0+tt.after); left != 1000-tt.used {
			t.Errorf("after %d µs %d remain, want %d", tt.after, left, 1000-tt.used)
		}
	}
	for _, tt := range []struct{ cost, retry int64 }{{740, 40 * ms}, {750, 50 * ms}, {751, 201 * ms}, {900, 350 * ms}, {901, 401 * ms}, {1000, 500 * ms}} {
		if got := leasedBucket.RetryAfter(state, t0, tt.cost); got != tt.retry {
			t.Errorf("RetryAfter(%d) = %d, want %d", tt.cost, got, tt.retry)
		}
	}
	if got := leasedBucket.ResetAfter(state, t0); got != 500*ms {
		t.Errorf("ResetAfter = %d, want %d", got, 500*ms)
	}
	if got := leasedBucket.Ends(state, t0); got != t0+700*ms {
		t.Errorf("stored until %v after t0, want both epochs and 300 ms", got-t0)
	}
	refunded := rule.State{At: index(leasedSliding), Used: 20, Prev: 30, Lent: 25, Before: 40}
	if got := leasedSliding.Unused(refunded, t0); got != refunded {
		t.Errorf("Unused = %+v, want no more than is used: %+v", got, refunded)
	}
	unused := leasedBucket.Unused(state, t0)
	if unused.Used != 250*s || unused.Lent != 100 || unused.Before != 150 {
		t.Errorf("Unused = %+v, want 250 used, all of them lent", unused)
	}
}

// What is lent goes with the units of its window, forward and, as the clock steps
// back, to where all that counts is.
func TestWhatIsLentStaysWithItsWindow(t *testing.T) {
	i := index(leasedSliding)
	for _, tt := range []struct {
		ahead float64 // windows
		want  rule.State
	}{
		{0, rule.State{At: i, Used: 30, Prev: 40, Lent: 25, Before: 15}},
		{-1, rule.State{At: i, Prev: 30, Before: 25}},
		{-2, rule.State{At: i}},
		{5, rule.State{At: i, Used: 70, Lent: 40}},
	} {
		state := rule.State{At: i + tt.ahead, Used: 30, Prev: 40, Lent: 25, Before: 15}
		if got, _ := leasedSliding.Current(state, t0); got != tt.want {
			t.Errorf("%v windows ahead: %+v, want %+v", tt.ahead, got, tt.want)
		}
	}
}

func TestARefundTakesNothingThatABucketLent(t *testing.T) {
	state := rule.State{At: t0, Used: 300 * s, Lent: 100, Before: 150}
	if got := leasedBucket.Give(state, t0, rule.Charge{Now: t0, Granted: 80, At: t0}); got.Used != 250*s {
		t.Errorf("%v are used, want 250", got.Used/s)
	}
}

// Units that were spent of a lease and refunded come back to their window, whether
// the lease is settled before that or after.
func TestARefundOfLeasedUnitsComesBackToTheWindow(t *testing.T) {
	for _, l := range []rule.Limit{leasedSliding, leasedFixed} {
		for _, ago := range []float64{0, 1} {
			i := index(l)
			at := int64((i - ago) * float64(l.Period))
			state := rule.State{At: i, Used: 100, Lent: 100, Prev: 100, Before: 100}
			// 60 were spent, and 10 of these refunded; others hold the rest
			give := func(s rule.State) rule.State {
				return l.Give(s, t0, rule.Charge{Now: at, Granted: 10, At: i - ago})
			}
			settle := func(s rule.State) rule.State { return l.Settle(s, t0, at, 80, 20) }
			want := state
			if ago == 0 {
				want.Used, want.Lent = 70, 20
			} else {
				want.Prev, want.Before = 70, 20
			}
			if got := settle(give(state)); got != want {
				t.Errorf("%v, %v windows ago, refunded first: %+v, want %+v", l, ago, got, want)
			}
			if got := give(settle(state)); got != want {
				t.Errorf("%v, %v windows ago, settled first: %+v, want %+v", l, ago, got, want)
			}
		}
	}
}

func TestSettle(t *testing.T) {
	i := index(leasedSliding)
	bucket := rule.State{At: t0, Used: 300 * s, Lent: 100, Before: 150}
	window := rule.State{At: i, Used: 300, Prev: 200, Lent: 100, Before: 150}
	for _, tt := range []struct {
		name              string
		limit             rule.Limit
		state             rule.State
		at, size, unspent int64 // at: µs after t0
		want              rule.State
	}{
		{"bucket, this epoch", leasedBucket, bucket, 0, 40, 30, rule.State{At: t0, Used: 270 * s, Lent: 60, Before: 150}},
		{"bucket, the epoch before", leasedBucket, bucket, -1, 40, 40, rule.State{At: t0, Used: 260 * s, Lent: 100, Before: 110}},
		{"bucket, an older one", leasedBucket, bucket, -201 * ms, 40, 40, bucket},
		{"bucket, after now", leasedBucket, bucket, 1, 40, 40, bucket},
		{"bucket, more than is lent", leasedBucket, bucket, 0, 500, 400, rule.State{At: t0, Used: 200 * s, Before: 150}},
		{"bucket, more than is lent in the epoch before", leasedBucket, bucket, -1, 500, 400, rule.State{At: t0, Used: 150 * s, Lent: 100}},
		{"bucket, nothing is lent any more", leasedBucket, rule.State{At: t0, Used: 300 * s}, 0, 40, 40, rule.State{At: t0, Used: 300 * s}},
		{"window, its own", leasedSliding, window, 0, 40, 30, rule.State{At: i, Used: 270, Prev: 200, Lent: 60, Before: 150}},
		{"window, the one before", leasedSliding, window, -1, 40, 30, rule.State{At: i, Used: 300, Prev: 170, Lent: 100, Before: 110}},
		{"window, most of it refunded", leasedSliding, rule.State{At: i, Used: 20, Lent: 100}, 0, 40, 30, rule.State{At: i, Lent: 60}},
		{"window, most of the one before refunded", leasedSliding, rule.State{At: i, Prev: 20, Before: 100}, -1, 40, 30, rule.State{At: i, Before: 60}},
		{"window, an older one", leasedSliding, window, -s - 1, 40, 30, window},
		{"window, a key of its own", leasedFixed, window, 0, 40, 30, rule.State{At: i, Used: 270, Prev: 200, Lent: 60, Before: 150}},
	} {
		if got := tt.limit.Settle(tt.state, t0, t0+tt.at, tt.size, tt.unspent); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		known := tt.want != tt.state || tt.state.Lent+tt.state.Before == 0 // there nothing was lent to be known
		if got := tt.limit.Credits(tt.want, t0, t0+tt.at); got != known {
			t.Errorf("%s: credited: %t, want %t", tt.name, got, known)
		}
	}
}

// Demand of 400 units in two lease times is a demand of 1,000 a second.
func TestLend(t *testing.T) {
	i := index(leasedSliding)
	asked := func(s rule.State, demand float64) rule.State {
		s.Demand, s.Asked = demand, t0
		return s
	}
	for _, tt := range []struct {
		name  string
		limit rule.Limit
		state rule.State // current at t0
		after int64      // µs
		want  int64
		loan  rule.Loan
	}{
		{"bucket, all that is wanted", leasedBucket, rule.State{At: t0}, 0, 100, rule.Loan{Units: 100}},
		{"bucket, a quarter of the burst", leasedBucket, rule.State{At: t0}, 0, 900, rule.Loan{Units: 250}},
		{"bucket, a quarter with what is lent", leasedBucket, rule.State{At: t0, Used: 400 * s, Lent: 100, Before: 100}, 0, 900, rule.Loan{Units: 50}},
		{"bucket, as much as there is", leasedBucket, rule.State{At: t0, Used: 990 * s}, 0, 100, rule.Loan{Units: 10}},
		{"bucket, just enough", leasedBucket, rule.State{At: t0, Used: 996 * s}, 0, 100, rule.Loan{Units: 4}},
		{"bucket, too little", leasedBucket, rule.State{At: t0, Used: 997 * s}, 0, 100, rule.Loan{}},
		{"bucket, too little wanted", leasedBucket, rule.State{At: t0}, 0, 3, rule.Loan{}},
		{"bucket, little for one that is not busy", leasedBucket, asked(rule.State{At: t0, Used: 960 * s}, 360), 0, 100, rule.Loan{Units: 40}},
		{"bucket, all of a demand that the rate has", leasedBucket, asked(rule.State{At: t0, Used: 500 * s}, 400), 0, 100, rule.Loan{Units: 100}},
		{"bucket, too little for a busy one: it gathers", leasedBucket, asked(rule.State{At: t0, Used: 960 * s}, 361), 0, 100, rule.Loan{Next: 50 * ms}},
		{"bucket, enough for a busy one", leasedBucket, asked(rule.State{At: t0, Used: 950 * s}, 361), 0, 100, rule.Loan{Units: 50}},
		{"bucket, half of the demand", leasedBucket, asked(rule.State{At: t0}, 800), 0, 100, rule.Loan{Units: 50}},
		{"bucket, half of the demand, half full", leasedBucket, asked(rule.State{At: t0, Used: 500 * s}, 800), 0, 100, rule.Loan{Units: 50, Next: 65 * ms}},
		{"bucket, half of the demand, nothing left but that", leasedBucket, asked(rule.State{At: t0, Used: 950 * s}, 800), 0, 100, rule.Loan{Units: 50, Next: 123_500}},
		{"bucket, shares of 4", leasedBucket, asked(rule.State{At: t0}, 4000), 0, 40, rule.Loan{Units: 4}},
		{"bucket, shares of less than 4", leasedBucket, asked(rule.State{At: t0}, 4000), 0, 39, rule.Loan{}},
		{"bucket, its time lies ahead", leasedBucket, rule.State{At: t0 + 1}, 0, 100, rule.Loan{}},

		{"window, all that is wanted", leasedSliding, rule.State{At: i}, 0, 100, rule.Loan{Units: 100}},
		{"window, a quarter", leasedSliding, rule.State{At: i, Used: 150, Lent: 150, Before: 200}, 0, 900, rule.Loan{Units: 100}},
		{"window, whatever the demand", leasedSliding, asked(rule.State{At: i}, 800), 0, 100, rule.Loan{Units: 100}},
		{"window, shares of less than 4", leasedSliding, asked(rule.State{At: i}, 4000), 0, 39, rule.Loan{}},
		{"window, a tenth is left", leasedSliding, rule.State{At: i, Used: 900}, 0, 200, rule.Loan{Units: 100}},
		{"window, less than a tenth is left", leasedSliding, rule.State{At: i, Used: 901}, 0, 50, rule.Loan{}},
		{"window, less than a tenth beside the one before", leasedSliding, rule.State{At: i, Prev: 1000, Used: 401}, s / 2, 50, rule.Loan{}},
		{"window, no more than fits in its last 50 ms", leasedSliding, rule.State{At: i}, 950 * ms, 100, rule.Loan{Units: 50}},
		{"window, its time lies ahead", leasedSliding, rule.State{At: i + 1}, 0, 100, rule.Loan{}},
		{"window, a key of its own", leasedFixed, rule.State{At: i}, 0, 100, rule.Loan{Units: 100}},
	} {
		got, loan := tt.limit.Lend(tt.state, t0+tt.after, tt.want, 0)
		if loan != tt.loan {
			t.Errorf("%s: %+v, want %+v", tt.name, loan, tt.loan)
		}
		unit := 1.0
		if tt.limit.Algorithm == rule.TokenBucket {
			unit = s
		}
		if n := float64(loan.Units); got.Lent != tt.state.Lent+n || got.Used != tt.state.Used+n*unit {
			t.Errorf("%s: %+v, want %v more lent and used", tt.name, got, n)
		}
	}
}

func TestDemandIsWhatIsOfferedInTwoLeaseTimes(t *testing.T) {
	for _, step := range []int64{1 * ms, 50 * ms, 399 * ms} {
		state, now := rule.State{At: t0}, int64(t0)
		for range 100 * 400 * ms / step {
			now += step
			state, _ = leasedBucket.Lend(state, now, 0, step/ms)
		}
		if math.Abs(state.Demand-400) > 1e-6 {
			t.Errorf("1,000 a second in steps of %d µs: %v, want 400", step, state.Demand)
		}
		if got, _ := leasedBucket.Current(state, now+400*ms); got.Demand != 0 || got.Asked != 0 {
			t.Errorf("two lease times later: %+v, want none", got)
		}
	}
}
