package redisrate

import (
	"testing"
	"time"
)

// However many limits are asked about, as where customers have their own, only
// so many are kept.
func TestPoliciesAreBounded(t *testing.T) {
	var ps policies
	for rate := range 3 * maxPolicies {
		if _, err := ps.of(PerHour(rate + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(ps.byLimit); n != maxPolicies {
		t.Errorf("%d policies are kept, want %d", n, maxPolicies)
	}
	first, _ := ps.of(PerMinute(5))
	again, _ := ps.of(PerMinute(5))
	if first == nil || first != again {
		t.Errorf("a limit asked about twice has policies %p and %p, want one", first, again)
	}
}

func TestLimitKeepsItsRateWhateverItsPeriod(t *testing.T) {
	for _, tt := range []struct {
		limit Limit
		want  string
	}{
		{PerSecond(10), "10/s burst 10 gcra"},
		{PerSecond(16_000), "16000/s burst 16000 gcra"},
		{PerSecond(16_001), "16001/s burst 16001"},
		{Limit{Rate: 1, Burst: 2, Period: 100 * time.Microsecond}, "10/ms burst 2 gcra"},
		{Limit{Rate: 1, Burst: 2, Period: 333 * time.Nanosecond}, "3004/1.001ms burst 2"},
		{Limit{Rate: 1, Burst: 2, Period: time.Second / 3}, "1/333.334ms burst 2 gcra"},
		{Limit{Rate: 1, Period: time.Second}, "1/s burst 1 gcra"},
	} {
		if got := tt.limit.limit().String(); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.limit, got, tt.want)
		}
	}
}
