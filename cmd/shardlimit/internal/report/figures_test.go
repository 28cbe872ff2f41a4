package report

import (
	"testing"
	"time"
)

func TestGroupPutsCommasBetweenThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -999: "-999", -1000: "-1,000",
	} {
		if got := Group(n); got != want {
			t.Errorf("Group(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestShortChoosesTheUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		850 * time.Nanosecond:   "0.8 µs",
		1234 * time.Microsecond: "1.2 ms",
		12 * time.Second:        "12.0 s",
	} {
		if got := Short(d); got != want {
			t.Errorf("Short(%v) = %q, want %q", d, got, want)
		}
	}
}
