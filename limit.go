package shardlimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/rule"
)

// Algorithm is the rule by which a limit decides.
type Algorithm uint8

const (
	// TokenBucket passes up to Burst units at once and refills steadily at Rate
	// per Period. It is the zero value.
	TokenBucket Algorithm = iota
	// GCRA decides as TokenBucket does, in the least memory. Its units are at
	// least 62.5 µs apart in the long run, and it can't go into debt.
	GCRA
	// SlidingWindow passes up to Rate units in the last Period, where those of
	// the window before are taken to have been spread evenly over it.
	SlidingWindow
	// SlidingLog passes up to Rate units in any Period, exactly. It stores each
	// unit, so its Rate is at most 10,000.
	SlidingLog
	// FixedWindow passes up to Rate units in each window. Windows are aligned
	// to 1970 in UTC; about an edge between two, twice Rate may pass.
	FixedWindow
)

// String returns the name that ParseLimit reads, as in "token_bucket".
func (a Algorithm) String() string {
	if a > FixedWindow {
		return fmt.Sprintf("Algorithm(%d)", uint8(a))
	}
	return a.rule().String()
}

// rule returns the algorithm's arithmetic.
func (a Algorithm) rule() rule.Algorithm {
	switch a {
	case GCRA:
		return rule.GCRA
	case SlidingWindow:
		return rule.SlidingWindow
	case SlidingLog:
		return rule.SlidingLog
	case FixedWindow:
		return rule.FixedWindow
	default:
		return rule.TokenBucket
	}
}

// Limit is how many units pass: Rate per Period in the long run, and Burst at
// once. The zero Limit is invalid: NewPolicy refuses it.
//
// In text, as in a configuration file, it is what ParseLimit reads.
type Limit struct {
	Algorithm Algorithm
	Rate      int64         // units per Period, 1 to 1e9
	Period    time.Duration // 1 ms to 366 days, in whole µs
	// Burst is the units that pass at once, up to 1e9; 0 means Rate. To refill
	// takes at most 10 years. Only TokenBucket and GCRA have one.
	Burst int64
}

// The bounds of a limit.
const (
	maxRate      = 1e9 // of Burst too
	minPeriod    = time.Millisecond
	maxPeriod    = 366 * day
	maxLogged    = 10_000                   // Rate of a SlidingLog
	leastBetween = 62_500 * time.Nanosecond // of GCRA: Period / Rate

	day      = 24 * time.Hour
	tenYears = 3653 * day
)

// PerSecond returns a token bucket of rate units per second.
func PerSecond(rate int64) Limit { return Per(rate, time.Second) }

// PerMinute returns a token bucket of rate units per minute.
func PerMinute(rate int64) Limit { return Per(rate, time.Minute) }

// PerHour returns a token bucket of rate units per hour.
func PerHour(rate int64) Limit { return Per(rate, time.Hour) }

// PerDay returns a token bucket of rate units per 24 hours.
func PerDay(rate int64) Limit { return Per(rate, day) }

// Per returns a token bucket of rate units per period.
func Per(rate int64, period time.Duration) Limit {
	return Limit{Rate: rate, Period: period}
}

// WithBurst returns l with another burst.
func (l Limit) WithBurst(burst int64) Limit {
	l.Burst = burst
	return l
}

// WithAlgorithm returns l under another algorithm.
func (l Limit) WithAlgorithm(a Algorithm) Limit {
	l.Algorithm = a
	return l
}

// hasBurst reports whether the algorithm has a burst of its own.
func (l Limit) hasBurst() bool { return l.Algorithm == TokenBucket || l.Algorithm == GCRA }

// capacity returns the units that the limit can ever hold.
func (l Limit) capacity() int64 {
	if l.hasBurst() && l.Burst != 0 {
		return l.Burst
	}
	return l.Rate
}

// rule returns the limit in the arithmetic's own terms. It must be valid.
func (l Limit) rule() rule.Limit {
	return rule.Limit{
		Algorithm: l.Algorithm.rule(),
		Rate:      l.Rate,
		Period:    l.Period.Microseconds(),
		Burst:     l.capacity(),
	}
}

// outlasts reports whether it takes the limit more than ten years to pass
// units. Its rate must be valid.
func (l Limit) outlasts(units int64) bool {
	return float64(units)*float64(l.Period) > float64(l.Rate)*float64(tenYears)
}

// check returns every fault of the limit; at begins the fields' names.
func (l Limit) check(at string) error {
	var faults []error
	fault := func(bad bool, field string, value any, reason string) {
		if bad {
			faults = append(faults, &ConfigError{Field: at + field, Value: value, Reason: reason})
		}
	}
	fault(l.Algorithm > FixedWindow, "Algorithm", l.Algorithm, "is unknown")
	rated := l.Rate >= 1 && l.Rate <= maxRate
	fault(!rated, "Rate", l.Rate, "must be 1 to 1000000000")
	fault(l.Algorithm == SlidingLog && l.Rate > maxLogged, "Rate", l.Rate, "of a sliding_log must be at most 10000")
	fault(l.Period < minPeriod || l.Period > maxPeriod, "Period", l.Period, "must be 1ms to 366 days")
	fault(l.Period%time.Microsecond != 0, "Period", l.Period, "must be whole microseconds")
	fault(l.Algorithm == GCRA && rated && l.Period < time.Duration(l.Rate)*leastBetween, "Rate", l.Rate,
		"leaves less than 62.5µs a unit, which gcra can't count: use token_bucket")
	switch {
	case l.Burst != 0 && !l.hasBurst():
		fault(true, "Burst", l.Burst, l.Algorithm.String()+" has none: it must be 0")
	case l.Burst < 0 || l.Burst > maxRate:
		fault(true, "Burst", l.Burst, "must be at most 1000000000; 0 means Rate")
	default:
		fault(rated && l.outlasts(l.Burst), "Burst", l.Burst, "takes more than 10 years to refill")
	}
	return errors.Join(faults...)
}
