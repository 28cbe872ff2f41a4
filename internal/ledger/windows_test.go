package ledger

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Windows are told once it is known when the run began: here at a window's start.
func TestJudgeWindows(t *testing.T) {
	fixed := shardlimit.PerSecond(5).WithAlgorithm(shardlimit.FixedWindow)
	sliding := shardlimit.PerSecond(10).WithAlgorithm(shardlimit.SlidingWindow)
	for _, c := range []struct {
		name     string
		limit    shardlimit.Limit
		admitted []int // ms
		over     int64
	}{
		{"a window's rate, and the next's", fixed, append(every(1, 990, 5), every(1, 1000, 5)...), 0},
		{"two above it", fixed, every(1, 300, 7), 2},
		{"what lies across the edge is in neither", fixed, every(1, 993, 7), 1},
		{"half of the window before counts", sliding, append(every(1, 0, 10), every(1, 1495, 5)...), 0},
		{"two units too many there", sliding, append(every(1, 0, 10), every(1, 1495, 7)...), 2},
		{"a window full at its end", sliding, append(every(1, 0, 10), every(1, 1980, 10)...), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := account(c.limit, nil)
			a.Log.Since(time.Unix(1_900_000_000, 0))
			for _, ms := range c.admitted {
				a.Add(at(ms), Admitted)
			}
			if got := Judge(Terms{Limits: []shardlimit.Limit{c.limit}}, a).Over; got != c.over {
				t.Errorf("over by %d, want %d", got, c.over)
			}
		})
	}
}
