package compare

import (
	"fmt"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rule"
)

func TestRoundAdmitsWhatEachAlgorithmPromises(t *testing.T) {
	for _, c := range []struct {
		algorithm rule.Algorithm
		percent   string
	}{
		{rule.FixedWindow, "90.0"},
		{rule.SlidingLog, "90.0"},
		{rule.SlidingWindow, "82.9"},
		{rule.TokenBucket, "100.0"},
		{rule.GCRA, "100.0"},
	} {
		asked, admitted, err := round(t.Context(), limitOf(c.algorithm))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%.1f", Row{Asked: asked, Admitted: admitted}.Percent()); got != c.percent {
			t.Errorf("%v admits %s %% of %d calls, want %s %%", c.algorithm, got, asked, c.percent)
		}
	}
}

func TestGreedyClientGetsNoMoreThanTheAlgorithmAllows(t *testing.T) {
	for _, c := range []struct {
		algorithm       rule.Algorithm
		in1s, in60s, ms int64
	}{
		{rule.FixedWindow, 200, 200, 59_901}, // both sides of the edge
		{rule.SlidingLog, 100, 100, 59_901},
		{rule.SlidingWindow, 100, 199, 1001},
		{rule.TokenBucket, 101, 199, 600},
		{rule.GCRA, 101, 199, 600},
	} {
		times, err := greedy(t.Context(), limitOf(c.algorithm))
		if err != nil {
			t.Fatal(err)
		}
		in1s, in60s, ms := most(times, second), most(times, minute), longestWait(times)/1000
		if in1s != c.in1s || in60s != c.in60s || ms != c.ms {
			t.Errorf("%v: a greedy client got %d in 1 s, %d in 60 s and waited %d ms; want %d, %d, %d",
				c.algorithm, in1s, in60s, ms, c.in1s, c.in60s, c.ms)
		}
	}
}

func TestMostCountsASpanWithoutItsEnd(t *testing.T) {
	for _, c := range []struct {
		times []int64
		want  int64
	}{
		{nil, 0},
		{[]int64{5}, 1},
		{[]int64{0, 9, 10, 11, 30}, 3},
		{[]int64{0, 10, 20}, 1},
	} {
		if got := most(c.times, 10); got != c.want {
			t.Errorf("most(%v, 10) = %d, want %d", c.times, got, c.want)
		}
	}
}
