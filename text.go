package shardlimit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseLimit reads a limit in the form
//
//	N/duration [burst N] [algorithm]
//
// as in "100/s", "1000/h burst 50" and "5/5m sliding_log". The duration is a
// number, which may have decimals down to 1 µs or be left out for 1, and a unit:
// ms, s, m, h, or d for 24 hours. Without an algorithm the limit is a token
// bucket.
//
// The error joins a *ConfigError for each fault.
func ParseLimit(s string) (Limit, error) {
	l, reason := parseLimit(strings.Fields(s))
	if reason != "" {
		return Limit{}, &ConfigError{Field: "Limit", Value: s, Reason: reason}
	}
	if err := l.check("Limit."); err != nil {
		return Limit{}, err
	}
	return l, nil
}

// parseLimit reads the words of a limit, or says what is wrong with them.
func parseLimit(words []string) (l Limit, reason string) {
	if len(words) == 0 {
		return Limit{}, "is empty: want N/duration [burst N] [algorithm]"
	}
	rate, period, found := strings.Cut(words[0], "/")
	words = words[1:]
	if !found {
		return Limit{}, "has no slash: want N/duration [burst N] [algorithm]"
	}
	var ok bool
	if l.Rate, ok = parseUnits(rate); !ok {
		return Limit{}, fmt.Sprintf("has a rate that isn't a number of units: %q", rate)
	}
	if l.Period, ok = parsePeriod(period); !ok {
		return Limit{}, fmt.Sprintf("has a duration that isn't a number and ms, s, m, h or d: %q", period)
	}
	if len(words) > 0 && words[0] == "burst" {
		if len(words) == 1 {
			return Limit{}, "has no number after burst"
		}
		if l.Burst, ok = parseUnits(words[1]); !ok || l.Burst == 0 {
			return Limit{}, fmt.Sprintf("has a burst that isn't a number of units: %q", words[1])
		}
		words = words[2:]
	}
	if len(words) > 0 {
		if l.Algorithm, ok = parseAlgorithm(words[0]); !ok {
			return Limit{}, fmt.Sprintf("has an unknown algorithm: %q", words[0])
		}
		words = words[1:]
	}
	if len(words) > 0 {
		return Limit{}, fmt.Sprintf("goes on behind its end: %q", words[0])
	}
	return l, ""
}

func parseAlgorithm(s string) (Algorithm, bool) {
	for a := TokenBucket; a <= FixedWindow; a++ {
		if s == a.String() {
			return a, true
		}
	}
	return 0, false
}

// parseUnits reads a whole number without a sign.
func parseUnits(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil
}

// units are a duration's, the longest first.
var units = []struct {
	name string
	long time.Duration
}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// parsePeriod reads a number, which may have decimals down to 1 µs, and a unit.
func parsePeriod(s string) (time.Duration, bool) {
	number := strings.TrimRight(s, "dhms")
	for _, u := range units {
		if s[len(number):] != u.name {
			continue
		}
		if number == "" {
			return u.long, true
		}
		return multiple(number, u.long)
	}
	return 0, false
}

// multiple returns number times unit, where that is whole µs.
func multiple(number string, unit time.Duration) (time.Duration, bool) {
	whole, decimals, pointed := strings.Cut(number, ".")
	n, ok := parseUnits(whole)
	if !ok || n > int64(math.MaxInt64/unit) {
		return 0, false
	}
	period := time.Duration(n) * unit
	if !pointed {
		return period, true
	}
	part, ok := parseUnits(decimals)
	for range len(decimals) {
		if unit%10 != 0 { // finer than 1 ns
			return 0, false
		}
		unit /= 10
	}
	rest := time.Duration(part) * unit
	if !ok || rest%time.Microsecond != 0 || period > math.MaxInt64-rest {
		return 0, false
	}
	return period + rest, true
}

// String returns the limit as ParseLimit reads it. What it returns of an
// invalid limit is for people only.
func (l Limit) String() string {
	s := strconv.FormatInt(l.Rate, 10) + "/" + periodText(l.Period)
	if l.Burst != 0 {
		s += " burst " + strconv.FormatInt(l.Burst, 10)
	}
	if l.Algorithm != TokenBucket {
		s += " " + l.Algorithm.String()
	}
	return s
}

// periodText returns a period in the longest unit that it is a multiple of, or
// else in ms with decimals.
func periodText(period time.Duration) string {
	for _, u := range units {
		switch n := period / u.long; {
		case period%u.long != 0 || n == 0:
		case n == 1:
			return u.name
		default:
			return strconv.FormatInt(int64(n), 10) + u.name
		}
	}
	return strconv.FormatFloat(float64(period)/float64(time.Millisecond), 'f', -1, 64) + "ms"
}

// MarshalText returns the limit's String. The zero Limit is the empty text; the
// error of another invalid one is NewPolicy's.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return nil, nil
	}
	if err := l.check("Limit."); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads a limit as ParseLimit does. The empty text is the zero
// Limit.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
