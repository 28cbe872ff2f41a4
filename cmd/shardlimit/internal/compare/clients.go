package compare

import (
	"context"
	"strconv"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// edge is a moment at which a minute starts, in µs since 1970: where windows,
// which are aligned to 1970, begin.
const edge = 30_000_000 * minute

// steps asks a store of its own at moments of its choice.
type steps struct {
	store *memory.Store
	call  scripts.Call
}

func newSteps(limit rule.Limit) *steps {
	return &steps{
		store: memory.New(),
		call:  scripts.Call{Plan: scripts.NewPlan(limit), Op: scripts.Take, Cost: 1, Count: 1},
	}
}

// allow asks for one unit of key at now.
func (s *steps) allow(ctx context.Context, key string, now int64) (bool, error) {
	s.call.Key, s.call.Clock = key, testclock.At(now)
	s.call.Nonce++
	reply, err := s.store.Do(ctx, &s.call)
	return reply.Granted == 1, err
}

// round calls 200,000 times, 0.5 ms apart, for 1,000 subjects in turn, from the
// start of a window on: each subject asks 200 times within 100 s.
func round(ctx context.Context, limit rule.Limit) (asked, admitted int64, err error) {
	const (
		calls    = 200_000
		subjects = 1000
		apart    = 500 // µs
	)
	names := make([]string, subjects)
	for i := range names {
		names[i] = "user-" + strconv.Itoa(i)
	}
	s := newSteps(limit)
	for i := range int64(calls) {
		ok, err := s.allow(ctx, names[i%subjects], edge+i*apart)
		if err != nil {
			return 0, 0, err
		}
		if ok {
			admitted++
		}
	}
	return calls, admitted, nil
}

// greedy returns the moments at which a client is admitted that has long been
// quiet and then, half a second before a window ends, starts to ask each
// millisecond, for three minutes.
func greedy(ctx context.Context, limit rule.Limit) ([]int64, error) {
	const (
		from  = edge - 500_000
		until = from + 3*minute
		apart = 1000 // µs
	)
	var admitted []int64
	s := newSteps(limit)
	for now := int64(from); now < until; now += apart {
		ok, err := s.allow(ctx, "greedy", now)
		if err != nil {
			return nil, err
		}
		if ok {
			admitted = append(admitted, now)
		}
	}
	return admitted, nil
}

// most returns the most of the times, which ascend, that any span holds, its
// end excluded.
func most(times []int64, span int64) int64 {
	var most, first int
	for last := range times {
		for times[last]-times[first] >= span {
			first++
		}
		most = max(most, last-first+1)
	}
	return int64(most)
}

// longestWait returns the longest time between two of the times, which ascend.
func longestWait(times []int64) int64 {
	var longest int64
	for i := 1; i < len(times); i++ {
		longest = max(longest, times[i]-times[i-1])
	}
	return longest
}
