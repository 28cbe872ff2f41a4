package rule_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rule"
)

const (
	// t0 is 2030-01-01 in µs: a window of any period that divides a day begins.
	t0 = 1893456000_000_000
	// g0 is the same in GCRA's ticks.
	g0 = (t0 - 1767225600_000_000) * rule.Tick

	s    = 1_000_000 // µs
	hour = 3600 * s
	year = 366 * 24 * hour
)

// The limits of the tables. Of the two buckets of 3 per second, what falls each
// µs is a whole number of neither.
var (
	bucket  = rule.Limit{Algorithm: rule.TokenBucket, Rate: 2, Period: s, Burst: 5}
	thirds  = rule.Limit{Algorithm: rule.TokenBucket, Rate: 3, Period: s, Burst: 3}
	gcra    = rule.Limit{Algorithm: rule.GCRA, Rate: 2, Period: s, Burst: 5} // T: 8,000,000 ticks
	gthirds = rule.Limit{Algorithm: rule.GCRA, Rate: 3, Period: s, Burst: 3} // T: 5,333,334 ticks
	sliding = rule.Limit{Algorithm: rule.SlidingWindow, Rate: 10, Period: 10 * s}
	log     = rule.Limit{Algorithm: rule.SlidingLog, Rate: 3, Period: 60 * s}
	fixed   = rule.Limit{Algorithm: rule.FixedWindow, Rate: 2, Period: 10 * s}
	short   = rule.Limit{Algorithm: rule.FixedWindow, Rate: 2, Period: s / 2}
)

// index is the window that t0 begins, of a period.
func index(l rule.Limit) float64 { return float64(t0 / l.Period) }

func TestAnswers(t *testing.T) {
	i, f, h := index(sliding), index(fixed), index(short)
	for _, tt := range []struct {
		name  string
		limit rule.Limit
		state rule.State // as stored
		at    int64      // µs after t0
		cost  int64

		remaining, retry, reset int64
	}{
		{"bucket, nothing stored", bucket, rule.State{}, 0, 5, 5, 0, 0},
		{"bucket, full, one unit", bucket, rule.State{Used: 5e6, At: t0}, 0, 1, 0, s / 2, 5 * s / 2},
		{"bucket, full, all units", bucket, rule.State{Used: 5e6, At: t0}, 0, 5, 0, 5 * s / 2, 5 * s / 2},
		{"bucket, 1 µs before a unit is back", bucket, rule.State{Used: 5e6, At: t0}, s/2 - 1, 1, 0, 1, 2*s + 1},
		{"bucket, a unit is back", bucket, rule.State{Used: 5e6, At: t0}, s / 2, 1, 1, 0, 2 * s},
		{"bucket, all is back", bucket, rule.State{Used: 5e6, At: t0}, 5 * s / 2, 5, 5, 0, 0},
		{"bucket, in debt", bucket, rule.State{Used: 12e6, At: t0}, 0, 1, 0, 4 * s, 6 * s},
		{"bucket, thirds round up", thirds, rule.State{Used: 3e6, At: t0}, 0, 1, 0, 333_334, s},
		{"bucket, half a second ahead", bucket, rule.State{Used: 5e6, At: t0 + s/2}, 0, 1, 0, s, 3 * s},
		{"bucket, a second ahead", bucket, rule.State{Used: 5e6, At: t0 + s}, 0, 1, 0, 3 * s / 2, 7 * s / 2},
		{"bucket, a year ahead", bucket, rule.State{Used: 5e6, At: t0 + year}, 0, 1, 0, 3 * s / 2, 7 * s / 2},

		{"gcra, nothing stored", gcra, rule.State{}, 0, 5, 5, 0, 0},
		{"gcra, nothing stored, before 2026", gcra, rule.State{}, -20 * year, 5, 5, 0, 0},
		{"gcra, full, one unit", gcra, rule.State{At: g0 + 40e6}, 0, 1, 0, s / 2, 5 * s / 2},
		{"gcra, full, all units", gcra, rule.State{At: g0 + 40e6}, 0, 5, 0, 5 * s / 2, 5 * s / 2},
		{"gcra, 1 tick of a unit is missing", gcra, rule.State{At: g0 + 32e6 + 1}, 0, 1, 0, 1, 2*s + 1},
		{"gcra, thirds round up", gthirds, rule.State{At: g0 + 16_000_002}, 0, 1, 0, 333_334, s + 1},
		{"gcra, fuller than full", gcra, rule.State{At: g0 + 48e6}, 0, 1, 0, s, 3 * s},
		{"gcra, a year ahead", gcra, rule.State{At: g0 + 16*year}, 0, 1, 0, 3 * s / 2, 7 * s / 2},

		{"sliding, nothing stored", sliding, rule.State{}, 0, 10, 10, 0, 0},
		{"sliding, half of the window before", sliding, rule.State{At: i, Prev: 10}, 5 * s, 6, 5, s, 5 * s},
		{"sliding, passes in the next window", sliding, rule.State{At: i, Used: 10}, 3 * s, 1, 0, 8 * s, 17 * s},
		{"sliding, that all may pass, all must have passed", sliding, rule.State{At: i, Used: 1}, 3 * s, 10, 9, 17 * s, 17 * s},
		{"sliding, both count, passes in this window", sliding, rule.State{At: i, Prev: 10, Used: 7}, 5 * s, 1, 0, 3 * s, 15 * s},
		{"sliding, both count, passes in the next", sliding, rule.State{At: i, Prev: 10, Used: 7}, 5 * s, 4, 0, 5*s + 1_428_572, 15 * s},
		{"sliding, the window before as stored", sliding, rule.State{At: i - 1, Used: 10}, 5 * s, 5, 5, 0, 5 * s},
		{"sliding, two windows on", sliding, rule.State{At: i - 2, Used: 10, Prev: 10}, 0, 10, 10, 0, 0},
		{"sliding, in debt", sliding, rule.State{At: i, Used: 40}, 3 * s, 1, 0, 7*s + 7_750_000, 17 * s},
		{"sliding, 0.4 s behind", sliding, rule.State{At: i + 1, Prev: 3, Used: 4}, 10*s - 400_000, 4, 3, 3_733_334, 20*s + 400_000},
		{"sliding, 2 s behind", sliding, rule.State{At: i + 1, Prev: 3, Used: 4}, 8 * s, 4, 3, 3_428_572, 12 * s},
		{"sliding, a year behind", sliding, rule.State{At: i + 1 + year/10/s, Prev: 3, Used: 4}, 8 * s, 4, 3, 3_428_572, 12 * s},

		{"log, nothing stored", log, rule.State{}, 0, 3, 3, 0, 0},
		{"log, full", log, rule.State{Used: 3, At: t0 + s, Leave: t0}, 2 * s, 1, 0, 58 * s, 59 * s},
		{"log, the last µs of an entry", log, rule.State{Used: 3, At: t0 + s, Leave: t0}, 60*s - 1, 1, 0, 1, s + 1},
		{"log, all have left", log, rule.State{Used: 3, At: t0 + s, Leave: t0}, 61 * s, 3, 3, 0, 0},
		{"log, a year ahead", log, rule.State{Used: 3, At: t0 + year, Leave: t0 + year - s}, 0, 1, 0, 61 * s, 61 * s},

		{"fixed, nothing stored", fixed, rule.State{}, 0, 2, 2, 0, 0},
		{"fixed, full", fixed, rule.State{At: f, Used: 2}, 8 * s, 1, 0, 2 * s, 2 * s},
		{"fixed, the next window", fixed, rule.State{At: f, Used: 2}, 10 * s, 2, 2, 0, 0},
		{"fixed, two windows on", fixed, rule.State{At: f, Used: 2}, 20 * s, 2, 2, 0, 0},
		{"fixed, one behind: its own count", fixed, rule.State{At: f + 1, Prev: 1, Used: 2}, 9 * s, 1, 1, 0, 11 * s},
		{"fixed, one behind: both are full", fixed, rule.State{At: f + 1, Prev: 1, Used: 2}, 9 * s, 2, 1, 11 * s, 11 * s},
		{"fixed, one behind: the next has room", fixed, rule.State{At: f + 1, Prev: 2}, 9 * s, 2, 0, s, s},
		{"fixed, an hour behind", fixed, rule.State{At: f + 360, Prev: 1, Used: 1}, 9 * s, 1, 0, s, s},
		{"short, less than a second ahead: its own count", short, rule.State{At: h + 2, Used: 2}, s/2 - 1000, 2, 0, 1000, s + 1000},
		{"short, more than a second ahead", short, rule.State{At: h + 3, Used: 1}, 0, 2, 1, s / 2, s / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := t0 + tt.at
			if got := tt.limit.Remaining(tt.state, now); got != tt.remaining {
				t.Errorf("Remaining = %d, want %d", got, tt.remaining)
			}
			if got := tt.limit.RetryAfter(tt.state, now, tt.cost); got != tt.retry {
				t.Errorf("RetryAfter(%d) = %d, want %d", tt.cost, got, tt.retry)
			}
			if got := tt.limit.ResetAfter(tt.state, now); got != tt.reset {
				t.Errorf("ResetAfter = %d, want %d", got, tt.reset)
			}
		})
	}
}

func TestFits(t *testing.T) {
	i := index(sliding)
	for _, tt := range []struct {
		name  string
		limit rule.Limit
		state rule.State // current
		at    int64
		cost  int64
		count int64
		want  int64
	}{
		{"all", bucket, rule.State{At: t0}, 0, 1, 5, 5},
		{"no more than there is", bucket, rule.State{At: t0}, 0, 1, 6, 5},
		{"whole requests", bucket, rule.State{At: t0}, 0, 2, 9, 2},
		{"nothing", bucket, rule.State{Used: 4_000_001, At: t0}, 0, 1, 9, 0},
		{"just one", bucket, rule.State{Used: 4_000_000, At: t0}, 0, 1, 9, 1},
		{"nothing in debt", bucket, rule.State{Used: 1e12, At: t0}, 0, 1, 9, 0},
		{"gcra, whole intervals", gthirds, rule.State{At: g0 + 1}, 0, 1, 9, 2},
		{"gcra, all", gthirds, rule.State{At: g0}, 0, 1, 9, 3},
		{"sliding, the window before weighs its part", sliding, rule.State{At: i, Prev: 9, Used: 1}, 5 * s, 2, 9, 2},
		{"sliding, to the µs", sliding, rule.State{At: i, Prev: 1}, 1, 10, 1, 0},
		{"sliding, the last µs of the window before", sliding, rule.State{At: i, Prev: 1}, 10*s - 1, 10, 1, 0},
		{"log", log, rule.State{Used: 1, At: t0}, 0, 1, 9, 2},
		{"fixed", fixed, rule.State{At: index(fixed), Used: 1}, 0, 1, 9, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.limit.Fits(tt.state, t0+tt.at, tt.cost, tt.count); got != tt.want {
				t.Errorf("Fits = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	i, f := index(sliding), index(fixed)
	for _, tt := range []struct {
		name      string
		limit     rule.Limit
		state     rule.State // current
		at, units int64
		want      rule.State
		ends      float64 // µs after t0
	}{
		{"bucket", bucket, rule.State{Used: 1e6, At: t0}, 0, 3, rule.State{Used: 4e6, At: t0}, 2 * s},
		{"bucket, ends round up", thirds, rule.State{At: t0}, 0, 1, rule.State{Used: 1e6, At: t0}, 333_334},
		{"gcra, a third of a second rounds up", gthirds, rule.State{At: g0}, 0, 1, rule.State{At: g0 + 5_333_334}, 333_334},
		{"gcra, idle", gcra, rule.State{At: g0 - 99}, 0, 1, rule.State{At: g0 + 8e6}, s / 2},
		{"gcra, busy", gcra, rule.State{At: g0 + 1}, 0, 1, rule.State{At: g0 + 8e6 + 1}, s/2 + 1},
		{"sliding", sliding, rule.State{At: i, Prev: 2, Used: 3}, s, 4, rule.State{At: i, Prev: 2, Used: 7}, 20 * s},
		{"log", log, rule.State{Used: 1, At: t0}, 0, 2, rule.State{Used: 3, At: t0}, 60 * s},
		{"fixed", fixed, rule.State{At: f, Used: 1}, s, 1, rule.State{At: f, Used: 2}, 20 * s},
		{"fixed, in the window before", fixed, rule.State{At: f + 1, Used: 1}, s, 1, rule.State{At: f + 1, Prev: 1, Used: 1}, 30 * s},
		{"fixed, an hour's", rule.Limit{Algorithm: rule.FixedWindow, Rate: 2, Period: hour}, rule.State{At: t0 / hour}, s, 1, rule.State{At: t0 / hour, Used: 1}, hour + rule.Grace},
		{"fixed, a short one's", short, rule.State{At: index(short)}, 1, 1, rule.State{At: index(short), Used: 1}, s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.limit.Add(tt.state, t0+tt.at, tt.units)
			if got != tt.want {
				t.Errorf("Add(%d) = %+v, want %+v", tt.units, got, tt.want)
			}
			if ends := tt.limit.Ends(got, t0+tt.at); ends != t0+tt.ends {
				t.Errorf("Ends = %.0f µs after the start, want %.0f", ends-t0, tt.ends)
			}
		})
	}
}

// Give's states are current at t0+at; each charge was made at t0 and left At.
func TestGive(t *testing.T) {
	i := index(sliding)
	for _, tt := range []struct {
		name        string
		limit       rule.Limit
		state       rule.State
		at, granted int64
		left        float64 // At of the state that the charge left
		want        rule.State
	}{
		{"bucket, at once", bucket, rule.State{Used: 5e6, At: t0}, 0, 3, t0, rule.State{Used: 2e6, At: t0}},
		{"bucket, 2 of 3 have decayed", bucket, rule.State{Used: 5e6, At: t0 + s}, s, 3, t0, rule.State{Used: 4e6, At: t0 + s}},
		{"bucket, all has decayed", bucket, rule.State{Used: 5e6, At: t0 + 2*s}, 2 * s, 3, t0, rule.State{Used: 5e6, At: t0 + 2*s}},
		{"bucket, never below nothing", bucket, rule.State{Used: 1e6, At: t0}, 0, 3, t0, rule.State{At: t0}},
		{"bucket, charged ahead", bucket, rule.State{Used: 5e6, At: t0}, 0, 3, t0 + s, rule.State{Used: 2e6, At: t0}},
		{"gcra, at once", gcra, rule.State{At: g0 + 40e6}, 0, 3, 0, rule.State{At: g0 + 16e6}},
		{"gcra, 2 of 3 have decayed", gcra, rule.State{At: g0 + 40e6}, s, 3, 0, rule.State{At: g0 + 32e6}},
		{"gcra, all has decayed", gcra, rule.State{At: g0 + 40e6}, 2 * s, 3, 0, rule.State{At: g0 + 40e6}},
		{"gcra, never before now", gcra, rule.State{At: g0 + 8e6}, 0, 3, 0, rule.State{At: g0}},
		{"sliding, its own window", sliding, rule.State{At: i, Prev: 4, Used: 5}, 0, 3, i, rule.State{At: i, Prev: 4, Used: 2}},
		{"sliding, the window before", sliding, rule.State{At: i, Prev: 4, Used: 5}, 0, 3, i - 1, rule.State{At: i, Prev: 1, Used: 5}},
		{"sliding, an older window", sliding, rule.State{At: i, Prev: 4, Used: 5}, 0, 3, i - 2, rule.State{At: i, Prev: 4, Used: 5}},
		{"sliding, never below nothing", sliding, rule.State{At: i, Used: 2}, 0, 3, i, rule.State{At: i}},
		{"fixed, the window before", fixed, rule.State{At: 7, Prev: 2, Used: 1}, 0, 3, 6, rule.State{At: 7, Used: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := rule.Charge{Now: t0, Granted: tt.granted, At: tt.left}
			if got := tt.limit.Give(tt.state, t0+tt.at, c); got != tt.want {
				t.Errorf("Give(%+v) = %+v, want %+v", c, got, tt.want)
			}
		})
	}
}

// What is pulled back must be said to be: only then is it stored.
func TestCurrentPullsBackWhatLiesMoreThanASecondAhead(t *testing.T) {
	i, f, h := index(sliding), index(fixed), index(short)
	for _, tt := range []struct {
		name  string
		limit rule.Limit
		state rule.State
		at    int64
		want  rule.State
		late  bool
	}{
		{"bucket, a second", bucket, rule.State{Used: 7, At: t0 + s}, 0, rule.State{Used: 7, At: t0 + s}, false},
		{"bucket, 1 µs more", bucket, rule.State{Used: 7, At: t0 + s + 1}, 0, rule.State{Used: 7, At: t0 + s}, true},
		{"gcra, full and a second", gcra, rule.State{At: g0 + 40e6 + 16e6}, 0, rule.State{At: g0 + 56e6}, false},
		{"gcra, 1 tick more", gcra, rule.State{At: g0 + 40e6 + 16e6 + 1}, 0, rule.State{At: g0 + 56e6}, true},
		{"sliding, a second", sliding, rule.State{At: i, Prev: 3, Used: 4}, -s, rule.State{At: i, Prev: 3, Used: 4}, false},
		{"sliding, 1 µs more", sliding, rule.State{At: i, Prev: 3, Used: 4}, -s - 1, rule.State{At: i - 1, Used: 7}, true},
		{"log, a second", log, rule.State{Used: 3, At: t0 + s, Leave: t0 + 9}, 0, rule.State{Used: 3, At: t0 + s, Leave: t0 + 9}, false},
		{"log, 1 µs more", log, rule.State{Used: 3, At: t0 + s + 1, Leave: t0 + 9}, 0, rule.State{Used: 3, At: t0 + s, Leave: t0 + 9}, true},
		{"log, its entries too", log, rule.State{Used: 3, At: t0 + 9*s, Leave: t0 + 8*s}, 0, rule.State{Used: 3, At: t0 + s, Leave: t0 + s}, true},
		{"fixed, the window before", fixed, rule.State{At: f, Prev: 1, Used: 2}, -9 * s, rule.State{At: f, Prev: 1, Used: 2}, false},
		{"fixed, the one before that", fixed, rule.State{At: f, Prev: 1, Used: 2}, -11 * s, rule.State{At: f - 2, Used: 3}, true},
		{"short, within a second", short, rule.State{At: h, Prev: 1, Used: 2}, -s, rule.State{At: h, Prev: 1, Used: 2}, false},
		{"short, 1 µs more", short, rule.State{At: h, Prev: 1, Used: 2}, -s - 1, rule.State{At: h - 3, Used: 3}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, late := tt.limit.Current(tt.state, t0+tt.at); got != tt.want || late != tt.late {
				t.Errorf("Current = %+v, %t; want %+v, %t", got, late, tt.want, tt.late)
			}
		})
	}
}

// TestRetryAfterIsTheLeastWait asks of states and limits of every size, with
// clocks that stepped back by up to years: after the wait the cost passes, and
// not a µs before.
func TestRetryAfterIsTheLeastWait(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	denied := 0
	for range 200_000 {
		l, state, cost := randomState(rng)
		wait := l.RetryAfter(state, t0, cost)
		if wait == 0 {
			continue
		}
		denied++
		met := state // what the denial left behind
		if cur, late := l.Current(state, t0); late {
			met = cur
		}
		fits := func(at int64) bool {
			cur, _ := l.Current(met, at)
			return l.Fits(cur, at, cost, 1) == 1
		}
		if fits(t0) || fits(t0+wait-1) || !fits(t0+wait) {
			t.Fatalf("%+v: %+v: RetryAfter(%d) = %d: passes now %t, 1 µs before that %t, then %t",
				l, state, cost, wait, fits(t0), fits(t0+wait-1), fits(t0+wait))
		}
	}
	t.Logf("%d denials", denied)
}

// randomState returns a valid limit, a state that a history at t0 may have left
// and a cost that the limit can hold.
func randomState(rng *rand.Rand) (l rule.Limit, state rule.State, cost int64) {
	upTo := func(n int64) int64 { return rng.Int64N(1 + int64(math.Pow(float64(n), rng.Float64()))) }
	l = rule.Limit{
		Algorithm: []rule.Algorithm{rule.TokenBucket, rule.GCRA, rule.SlidingWindow, rule.FixedWindow}[rng.IntN(4)],
		Rate:      1 + upTo(1e9),
		Period:    1000 + upTo(year),
	}
	const tenYears = 3653 * 24 * hour
	if l.Algorithm == rule.GCRA {
		l.Rate = min(l.Rate, l.Period*2/125)
	}
	l.Burst = 1 + upTo(int64(min(1e9, tenYears/float64(l.Period)*float64(l.Rate))))
	capacity := l.Capacity()
	cost = 1 + upTo(capacity-1)
	ahead := []int64{0, -upTo(l.Period), upTo(2 * s), upTo(3 * year)}[rng.IntN(4)]
	near := func() float64 { return float64(max(capacity-upTo(capacity), 0)) }
	switch l.Algorithm {
	case rule.TokenBucket:
		state = rule.State{Used: near() * float64(l.Period), At: float64(t0 + ahead)}
	case rule.GCRA:
		ticks := math.Ceil(rule.Tick * float64(l.Period) / float64(l.Rate))
		state = rule.State{At: g0 + float64(rule.Tick*ahead) + near()*ticks}
	default:
		state = rule.State{At: float64((t0 + ahead) / l.Period), Used: near(), Prev: float64(upTo(capacity))}
	}
	return l, state, cost
}

// A denial takes no longer where its numbers are so large that a window's
// weight is the same to a float64 for seconds about an edge.
func TestRetryAfterOfTheLargestWindow(t *testing.T) {
	l := rule.Limit{Algorithm: rule.SlidingWindow, Rate: 1e9, Period: year}
	state := rule.State{At: index(l), Prev: 1, Used: 1e9 - 2}
	const now = t0/year*year + s
	got := l.RetryAfter(state, now, 2)
	if left := year - s - got; left < 0 || left > 3*s { // until the window ends
		t.Errorf("RetryAfter(2) = %d, want the window's end or at most 3 s before", got)
	}
}

// Beyond 2^53 rounding may deny a window's last unit. It passes in the next
// window, and is not put off for ever.
func TestRetryAfterOfWhatRoundingDenies(t *testing.T) {
	l := rule.Limit{Algorithm: rule.SlidingWindow, Rate: 34_001_617, Period: 164_080_857_655}
	state := rule.State{At: index(l), Used: float64(l.Rate - 1)}
	left := l.Period - t0%l.Period // of the window
	if got := l.RetryAfter(state, t0, 1); got < left || got > left+s {
		t.Errorf("RetryAfter(1) = %d, want at most a second more than the window's %d", got, left)
	}
}

// Debt upon debt waits longer than an int64 counts µs, and never a negative
// time.
func TestDebtUponDebt(t *testing.T) {
	const tenYears = 3653 * 24 * hour
	for _, l := range []rule.Limit{
		{Algorithm: rule.TokenBucket, Rate: 1, Period: year, Burst: 1},
		{Algorithm: rule.TokenBucket, Rate: 1e9, Period: 1000, Burst: 1e9},
	} {
		for _, tt := range []struct{ times, least float64 }{
			{1, tenYears - year}, {1000, 1000*tenYears - year}, {28_000, 8e18}, {30_000, math.MaxInt64}, {1e9, math.MaxInt64},
		} {
			state := rule.State{Used: tt.times * tenYears * float64(l.Rate), At: t0}
			retry, reset := l.RetryAfter(state, t0, 1), l.ResetAfter(state, t0)
			if float64(retry) < tt.least || reset < retry {
				t.Errorf("%+v, %.0f times ten years of debt: retry after %d, reset after %d; want at least %.0f", l, tt.times, retry, reset, tt.least)
			}
		}
	}
}
