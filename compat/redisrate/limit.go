package redisrate

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Limit is Rate events per Period in the long run, and Burst at once. A Burst of
// 0 allows nothing.
type Limit struct {
	Rate   int
	Burst  int
	Period time.Duration
}

// PerSecond returns a limit of rate events per second, all of them at once.
func PerSecond(rate int) Limit { return Limit{Rate: rate, Period: time.Second, Burst: rate} }

// PerMinute returns a limit of rate events per minute, all of them at once.
func PerMinute(rate int) Limit { return Limit{Rate: rate, Period: time.Minute, Burst: rate} }

// PerHour returns a limit of rate events per hour, all of them at once.
func PerHour(rate int) Limit { return Limit{Rate: rate, Period: time.Hour, Burst: rate} }

// String returns the limit in the form "10 req/s (burst 10)".
func (l Limit) String() string {
	return fmt.Sprintf("%d req/%s (burst %d)", l.Rate, periodText(l.Period), l.Burst)
}

// IsZero reports whether l is the zero Limit.
func (l Limit) IsZero() bool { return l == Limit{} }

func periodText(d time.Duration) string {
	switch d {
	case time.Second:
		return "s"
	case time.Minute:
		return "m"
	case time.Hour:
		return "h"
	default:
		return d.String()
	}
}

// finest is the least time between two events that GCRA can count.
const finest = 62_500 * time.Nanosecond

// limit returns l in shardlimit's terms: in periods of at least 1 ms and whole
// microseconds. As there a Burst of 0 means another, it is 1 here.
func (l Limit) limit() shardlimit.Limit {
	s := shardlimit.Limit{Algorithm: shardlimit.GCRA, Rate: int64(l.Rate), Period: l.Period, Burst: int64(l.Burst)}
	if s.Burst == 0 {
		s.Burst = 1
	}
	if s.Period/finest < time.Duration(s.Rate) {
		s.Algorithm = shardlimit.TokenBucket
	}
	if s.Period > 0 && s.Period < time.Millisecond && s.Rate <= 1e9 {
		times := int64((time.Millisecond + s.Period - 1) / s.Period)
		s.Rate *= times
		s.Period *= time.Duration(times)
	}
	if part := s.Period % time.Microsecond; part > 0 {
		s.Period += time.Microsecond - part
	}
	return s
}

// takes returns how long n events take at the limit's rate.
func (l Limit) takes(n int) time.Duration {
	return time.Duration(float64(n) * float64(l.Period) / float64(l.Rate))
}
