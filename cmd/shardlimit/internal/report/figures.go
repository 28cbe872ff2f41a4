package report

import (
	"fmt"
	"strconv"
	"time"
)

// Group writes a number with commas between its thousands.
func Group(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Short writes a latency to one decimal of the unit that suits it.
func Short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// PerSecond returns how many of n things that happened in a time come to a
// second.
func PerSecond(n int64, in time.Duration) int64 {
	if in <= 0 {
		return 0
	}
	return int64(float64(n) / in.Seconds())
}
