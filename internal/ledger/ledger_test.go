package ledger

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

const ms = time.Millisecond

// at is a call sent at a time, in ms, and answered 1 ms later.
func at(sent int) Span {
	return Span{Sent: time.Duration(sent) * ms, Replied: time.Duration(sent+1) * ms}
}

// account enters calls of one outcome at each of the times, in ms.
func account(limit shardlimit.Limit, calls map[Outcome][]int) Account {
	return accountOf(exactly(limit), calls)
}

// exactly is the terms of limits that lend nothing.
func exactly(limits ...shardlimit.Limit) Terms { return Terms{limits, shardlimit.LeaseOff} }

func accountOf(t Terms, calls map[Outcome][]int) Account {
	a := Account{Log: NewLog(t)}
	for outcome, times := range calls {
		for _, t := range times {
			a.Add(at(t), outcome)
		}
	}
	return a
}

// every returns n times, apart ms from each other, from a first one on.
func every(apart, from, n int) []int {
	times := make([]int, n)
	for i := range times {
		times[i] = from + i*apart
	}
	return times
}

func TestJudge(t *testing.T) {
	bucket := shardlimit.PerSecond(10).WithBurst(5) // a unit each 100 ms
	slow := shardlimit.PerHour(5)
	log := shardlimit.Per(5, time.Second).WithAlgorithm(shardlimit.SlidingLog)
	for _, c := range []struct {
		name  string
		limit shardlimit.Limit
		calls map[Outcome][]int
		want  Verdict
	}{
		{"nothing asked", bucket, nil, Verdict{Exact: true}},
		{"the burst", bucket, map[Outcome][]int{Admitted: every(1, 0, 5)}, Verdict{Exact: true}},
		{"one above the burst", bucket, map[Outcome][]int{Admitted: every(1, 0, 6)}, Verdict{Over: 1, Exact: true}},
		{"burst and refill", bucket, map[Outcome][]int{Admitted: append(every(0, 0, 5), every(100, 100, 10)...)}, Verdict{}},
		{"one denied too early", bucket, map[Outcome][]int{Admitted: every(1, 0, 4), Denied: {5}}, Verdict{Under: 1, Exact: true}},
		{"that one may have been charged", bucket, map[Outcome][]int{Admitted: every(1, 0, 4), Denied: {5}, Unknown: {3}}, Verdict{}},
		{"two bursts with too short a rest", bucket, map[Outcome][]int{Admitted: append(every(0, 0, 5), every(0, 300, 5)...)}, Verdict{Over: 2}},
		{"a burst late in a quiet run", bucket, map[Outcome][]int{Admitted: append(every(0, 0, 1), every(0, 9000, 7)...)}, Verdict{Over: 2}},
		{
			"no refill while it was asked for", bucket,
			map[Outcome][]int{Admitted: every(0, 0, 5), Denied: every(10, 5, 100)},
			Verdict{Under: 8}, // of 9.89, to one unit
		},
		{"limit without refill", slow, map[Outcome][]int{Admitted: every(1, 0, 5), Denied: every(1, 5, 50)}, Verdict{Exact: true}},
		{"one above it", slow, map[Outcome][]int{Admitted: every(1, 0, 6), Denied: every(1, 6, 50)}, Verdict{Over: 1, Exact: true}},
		{"one below it", slow, map[Outcome][]int{Admitted: every(1, 0, 4), Denied: every(1, 6, 50)}, Verdict{Under: 1, Exact: true}},
		{"log: its rate", log, map[Outcome][]int{Admitted: every(1, 0, 5), Denied: every(1, 6, 50)}, Verdict{Exact: true}},
		{"log: its rate, twice", log, map[Outcome][]int{Admitted: append(every(1, 0, 5), every(1, 1000, 5)...)}, Verdict{}},
		{"log: too many about a second's edge", log, map[Outcome][]int{Admitted: append(every(1, 500, 5), every(1, 1400, 3)...)}, Verdict{Over: 3, Exact: true}},
		{"log: one denied too early", log, map[Outcome][]int{Admitted: every(1, 0, 4), Denied: {500}}, Verdict{Under: 1, Exact: true}},
		{
			"the burst again, its charges lost", slow,
			map[Outcome][]int{AtRisk: every(1, 0, 5), Admitted: every(1, 3000, 5)},
			Verdict{Lost: 5},
		},
		{
			"one more than was lost", slow,
			map[Outcome][]int{Admitted: append(every(1, 0, 3), every(1, 3000, 3)...), AtRisk: every(1, 3, 2)},
			Verdict{Lost: 2, Over: 1},
		},
		{"charges at risk that weren't lost", slow, map[Outcome][]int{AtRisk: every(1, 0, 5), Denied: {3000}}, Verdict{}},
		{
			"log: its rate again, its entries lost", log,
			map[Outcome][]int{AtRisk: every(1, 0, 5), Admitted: every(1, 900, 5)},
			Verdict{Lost: 5},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := account(c.limit, c.calls)
			if got := Judge(exactly(c.limit), a); got != c.want {
				t.Errorf("Judge(%v, %v) = %+v, want %+v", c.limit, c.calls, got, c.want)
			}
		})
	}
}

func TestJudgeHoldsEveryLimitOfAPolicy(t *testing.T) {
	limits := []shardlimit.Limit{shardlimit.PerSecond(1000), shardlimit.PerHour(5)}
	a := account(limits[0], map[Outcome][]int{Admitted: every(1, 0, 7)})
	if got, want := Judge(exactly(limits...), a), (Verdict{Over: 2}); got.Over != want.Over {
		t.Errorf("Judge(%v, 7 admitted) = %+v, want %+v", limits, got, want)
	}
}

func TestCallCountsInASpanOnlyIfItLiesWhollyInside(t *testing.T) {
	limit := shardlimit.PerSecond(10).WithBurst(1)
	a := Account{Log: NewLog(exactly(limit))}
	a.Add(Span{Sent: 0, Replied: 200 * ms}, Admitted)
	a.Add(Span{Sent: 0, Replied: 200 * ms}, Admitted)
	a.Add(Span{Sent: 0, Replied: 200 * ms}, Admitted) // at 0, 100 and 200 ms, perhaps
	if got := Judge(exactly(limit), a); got.Over != 0 {
		t.Errorf("Judge = %+v, want nothing over", got)
	}
}

// TestOverBucketAgreesWithEverySpan holds the schedule against a look at each
// pair of ends.
func TestOverBucketAgreesWithEverySpan(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		spans := make([]Span, 1+r.IntN(30))
		for i := range spans {
			spans[i].Sent = time.Duration(r.IntN(100)) * time.Microsecond
			spans[i].Replied = spans[i].Sent + time.Duration(r.IntN(30_000))
		}
		burst, emission := 1+r.Int64N(5), float64(1+r.IntN(20_000))
		if got, want := overBucket(spans, burst, emission), worstSpan(spans, burst, emission); got != want {
			t.Fatalf("overBucket(%v, %d, %v) = %d, want %d", spans, burst, emission, got, want)
		}
	}
}

func worstSpan(spans []Span, burst int64, emission float64) int64 {
	worst := 0.0
	for _, from := range spans {
		for _, to := range spans {
			if to.Replied < from.Sent {
				continue
			}
			inside := len(slices.DeleteFunc(slices.Clone(spans), func(s Span) bool {
				return s.Sent < from.Sent || s.Replied > to.Replied
			}))
			allowed := float64(burst) + float64(to.Replied-from.Sent+grain)/emission
			worst = max(worst, float64(inside)-allowed)
		}
	}
	return int64(math.Ceil(worst - rounding))
}

func TestLedgerSumsItsAccountsAndSaysWhetherAllWasKept(t *testing.T) {
	limit := shardlimit.PerHour(5)
	accounts := []Account{
		account(limit, map[Outcome][]int{Admitted: every(1, 0, 5), Denied: {9}}),
		{}, // never asked
		account(limit, map[Outcome][]int{Admitted: every(1, 0, 7), Denied: {9}, Unknown: {8}}),
		account(limit, map[Outcome][]int{Admitted: every(1, 0, 2), Denied: {9}}),
	}
	var l Ledger
	l.Enter("trial", exactly(limit), slices.Values(accounts))
	got, want := l.Lines[0], Line{
		Policy: "trial", Subjects: 3, Asked: 17, Admitted: 14, Unknown: 1, Exact: 2, Over: 2, Under: 1,
	}
	got.Limits = nil
	if got.Policy != want.Policy || got.Subjects != want.Subjects || got.Asked != want.Asked ||
		got.Admitted != want.Admitted || got.Unknown != want.Unknown || got.Exact != want.Exact ||
		got.Over != want.Over || got.Under != want.Under {
		t.Errorf("Enter made %+v, want %+v", got, want)
	}
	if l.Kept() {
		t.Errorf("Kept() = true of a ledger with %d over and %d under", l.Over, l.Under)
	}
	l.Forget(2)
	if l.Under != 0 || l.Forgotten != 1 {
		t.Errorf("%d under, %d forgotten of the 1 that was under; want 0 and 1", l.Under, l.Forgotten)
	}
	if !(Ledger{}).Kept() || (Ledger{Errors: 1}).Kept() {
		t.Error("Kept() must say true of nothing amiss, and false of an error")
	}
}
