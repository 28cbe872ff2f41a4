package ledger

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func TestRefused(t *testing.T) {
	bucket := shardlimit.PerSecond(10).WithBurst(5) // a unit each 100 ms
	gcra := bucket.WithAlgorithm(shardlimit.GCRA)
	log := shardlimit.Per(5, time.Second).WithAlgorithm(shardlimit.SlidingLog)
	fixed := log.WithAlgorithm(shardlimit.FixedWindow)
	sliding := log.WithAlgorithm(shardlimit.SlidingWindow)
	slow := func(sent, replied int) []Span {
		return []Span{{Sent: time.Duration(sent) * ms, Replied: time.Duration(replied) * ms}}
	}
	for _, c := range []struct {
		name              string
		limit             shardlimit.Limit
		admitted, refused []Span
		want              int64
	}{
		{"nothing refused", bucket, spans(every(1, 0, 5)), nil, 0},
		{"bucket: a burst used", bucket, spans(every(1, 0, 5)), spans([]int{6, 90}), 0},
		{"bucket: a unit is back", bucket, spans(every(1, 0, 5)), spans([]int{6, 130}), 1},
		{"gcra: a unit is back", gcra, spans(every(1, 0, 5)), spans([]int{6, 130}), 1},
		{"bucket: one is free", bucket, spans(every(1, 0, 4)), spans([]int{6}), 1},
		{"bucket: all is back", bucket, spans(every(1, 0, 5)), spans([]int{5000}), 5},
		{"bucket: decided while the last one may have come", bucket, append(spans(every(1, 0, 4)), slow(10, 900)...), spans([]int{40}), 0},
		{"bucket: decided at the start of its span", bucket, spans(every(1, 0, 5)), slow(50, 900), 0},
		{"log: full", log, spans(every(1, 0, 5)), spans([]int{900}), 0},
		{"log: one has left", log, spans(every(100, 0, 5)), spans([]int{1050}), 1},
		{"fixed: full", fixed, spans(every(1, 0, 5)), spans([]int{990}), 0},
		{"fixed: the next window", fixed, spans(every(1, 0, 5)), spans([]int{1010}), 5},
		{"fixed: on either side of the edge", fixed, spans(every(1, 0, 5)), slow(990, 1010), 0},
		{"fixed: one may lie in the next", fixed, append(spans(every(1, 0, 4)), slow(990, 1010)...), spans([]int{1020}), 4},
		{"sliding: full", sliding, spans(every(1, 0, 5)), spans([]int{990}), 0},
		{"sliding: a fifth of the next window", sliding, spans(every(1, 0, 5)), spans([]int{1190}), 0},
		{"sliding: more than a fifth", sliding, spans(every(1, 0, 5)), spans([]int{1210}), 1},
	} {
		if got := Refused(c.limit, time.Unix(1_900_000_000, 0), c.admitted, c.refused); got != c.want {
			t.Errorf("%s: %d were free, want %d", c.name, got, c.want)
		}
	}
}

// spans are calls sent at those times, in ms, and answered 1 ms later.
func spans(sent []int) (list []Span) {
	for _, t := range sent {
		list = append(list, at(t))
	}
	return list
}
