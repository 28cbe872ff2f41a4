// Package compare shows what each algorithm makes of one limit: how much of the
// same calls it admits, how large a burst it lets through, how long it makes a
// busy client wait, and what it keeps of each subject. Every figure is computed
// by the algorithms themselves, at a clock that it steps.
package compare

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/rule"
)

// In µs; a minute is the period of the limit that is compared.
const (
	second = 1_000_000
	minute = 60 * second
)

// algorithms are those compared, the strictest about a burst last.
var algorithms = []rule.Algorithm{
	rule.FixedWindow, rule.SlidingWindow, rule.TokenBucket, rule.GCRA, rule.SlidingLog,
}

// Row is what one algorithm makes of "100 per minute".
type Row struct {
	Algorithm string `json:"algorithm"`
	Asked     int64  `json:"asked"`    // calls of the round
	Admitted  int64  `json:"admitted"` // of them
	// MostIn1s and MostIn60s are the most units that a greedy client got in
	// any span of that length, end excluded.
	MostIn1s  int64 `json:"most_in_1s"`
	MostIn60s int64 `json:"most_in_60s"`
	// LongestWaitMS is the longest that the greedy client went without.
	LongestWaitMS int64 `json:"longest_wait_ms"`
	// Bytes is the memory that a server takes for the key of a subject that
	// used all it may; 0: no server here to ask.
	Bytes int64 `json:"bytes_per_key,omitempty"`
}

// Percent returns the share of the calls that was admitted.
func (r Row) Percent() float64 { return 100 * float64(r.Admitted) / float64(r.Asked) }

// Rows returns a row for each algorithm, with the bytes that the server of opts
// takes. Where it can't be had they lack the bytes, and noServer says why.
func Rows(ctx context.Context, opts rediscluster.Options) (rows []Row, noServer, err error) {
	bytes, err := keySizes(ctx, opts)
	if isAbsent(err) {
		noServer, err = err, nil
	}
	for i, a := range algorithms {
		if err != nil {
			return nil, nil, err
		}
		var row Row
		row, err = simulate(ctx, a)
		if bytes != nil {
			row.Bytes = bytes[i]
		}
		rows = append(rows, row)
	}
	return rows, noServer, err
}

// simulate fills all of a row that needs no server.
func simulate(ctx context.Context, a rule.Algorithm) (Row, error) {
	limit := limitOf(a)
	row := Row{Algorithm: a.String()}
	var err error
	if row.Asked, row.Admitted, err = round(ctx, limit); err != nil {
		return row, err
	}
	times, err := greedy(ctx, limit)
	row.MostIn1s, row.MostIn60s = most(times, second), most(times, minute)
	row.LongestWaitMS = longestWait(times) / 1000
	return row, err
}

// limitOf returns "100 per minute" under an algorithm.
func limitOf(a rule.Algorithm) rule.Limit {
	return rule.Limit{Algorithm: a, Rate: 100, Period: minute, Burst: 100}
}
