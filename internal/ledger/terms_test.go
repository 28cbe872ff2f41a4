package ledger

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func TestLeasesHoldAQuarterOfWhatIsLentAtAll(t *testing.T) {
	window := shardlimit.PerSecond(100).WithAlgorithm(shardlimit.FixedWindow)
	for _, c := range []struct {
		name          string
		terms         Terms
		lent, waiting int64
	}{
		{"bucket", Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(200)}}, 50, 50 + 25},
		{"bucket of just four lease times", Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(80)}}, 20, 20 + 25},
		{"bucket of less", Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(79)}}, 0, 0},
		{"burst is the rate", Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(5000)}}, 1250, 1250 + 1250},
		{"off", Terms{[]shardlimit.Limit{shardlimit.PerSecond(100)}, shardlimit.LeaseOff}, 0, 0},
		{"gcra", Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithAlgorithm(shardlimit.GCRA)}}, 0, 0},
		{"log", Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithAlgorithm(shardlimit.SlidingLog)}}, 0, 0},
		{"fixed window", Terms{Limits: []shardlimit.Limit{window}}, 25, 25 + 25},
		{"sliding window", Terms{Limits: []shardlimit.Limit{window.WithAlgorithm(shardlimit.SlidingWindow)}}, 25, 25 + 25},
		{"window below a second", Terms{Limits: []shardlimit.Limit{shardlimit.Per(100, 999*time.Millisecond).WithAlgorithm(shardlimit.FixedWindow)}}, 0, 0},
		{"two limits", Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(100), shardlimit.PerHour(1000)}}, 0, 0},
		{"a quarter is no lease's worth", Terms{Limits: []shardlimit.Limit{shardlimit.PerHour(15)}}, 0, 0},
		{"it just is", Terms{Limits: []shardlimit.Limit{shardlimit.PerHour(16)}}, 4, 4 + 1},
	} {
		if lent, waiting := c.terms.lendable(), c.terms.waiting(); lent != c.lent || waiting != c.waiting {
			t.Errorf("%s: %d lent, %d waiting; want %d and %d", c.name, lent, waiting, c.lent, c.waiting)
		}
	}
}

func TestJudgeAllowsForWhatLeasesHold(t *testing.T) {
	lent := Terms{Limits: []shardlimit.Limit{shardlimit.PerHour(40)}} // at most 10 in leases
	off := Terms{lent.Limits, shardlimit.LeaseOff}
	fast := Terms{Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(200)}} // 50 in leases, 25 while denied
	for _, c := range []struct {
		name  string
		terms Terms
		calls map[Outcome][]int
		want  Verdict
	}{
		{"refused while leases hold a quarter", lent, map[Outcome][]int{Admitted: every(1, 0, 30), Denied: every(1, 30, 20)}, Verdict{}},
		{"refused while they would hold more", lent, map[Outcome][]int{Admitted: every(1, 0, 29), Denied: every(1, 30, 20)}, Verdict{Under: 1}},
		{"asked for no more than leases leave", lent, map[Outcome][]int{Admitted: every(1, 0, 28), Denied: {28, 29}}, Verdict{Under: 2, Exact: true}},
		{"the same without leases", off, map[Outcome][]int{Admitted: every(1, 0, 30), Denied: every(1, 30, 20)}, Verdict{Under: 10, Exact: true}},
		{"over as ever", lent, map[Outcome][]int{Admitted: every(1, 0, 41)}, Verdict{Over: 1}},
		{"put off by an empty lease", lent, map[Outcome][]int{Admitted: every(1, 0, 5), Known: every(1, 5, 40)}, Verdict{}},
		{"known to be denied, without leases", off, map[Outcome][]int{Admitted: every(1, 0, 5), Known: every(1, 5, 40)}, Verdict{Under: 35, Exact: true}},
		{
			"refill of a second, all but what may wait", fast, // 99.89 units: 98 to one unit
			map[Outcome][]int{Admitted: append(every(0, 0, 200), every(10, 50, 23)...), Known: every(10, 5, 101)},
			Verdict{},
		},
		{
			"one unit less", fast,
			map[Outcome][]int{Admitted: append(every(0, 0, 200), every(10, 50, 22)...), Known: every(10, 5, 101)},
			Verdict{Under: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Judge(c.terms, accountOf(c.terms, c.calls)); got != c.want {
				t.Errorf("Judge(%v, %v) = %+v, want %+v", c.terms, c.calls, got, c.want)
			}
		})
	}
}
