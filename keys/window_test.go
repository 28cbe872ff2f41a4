package keys_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/shardlimit/shardlimit/keys"
)

func TestWindowRoundsDown(t *testing.T) {
	for _, tt := range []struct{ now, period, want int64 }{
		{0, 10, 0},
		{9, 10, 0},
		{10, 10, 1},
		{-1, 10, -1},
		{-10, 10, -1},
		{-11, 10, -2},
		{7, 1, 7},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MinInt64, 1, math.MinInt64},
		{math.MinInt64, math.MaxInt64, -2},
		{1_790_000_000_000_000, 1_000_000, 1_790_000_000},
	} {
		if got := keys.Window(tt.now, tt.period); got != tt.want {
			t.Errorf("Window(%d, %d) = %d, want %d", tt.now, tt.period, got, tt.want)
		}
	}
}

func FuzzWindow(f *testing.F) {
	f.Add(int64(-1), int64(10))
	f.Add(int64(math.MinInt64), int64(3))
	f.Fuzz(func(t *testing.T, now, period int64) {
		if period <= 0 {
			return
		}
		index := keys.Window(now, period)
		// now - index*period, right also where the product overflows
		if into := now - index*period; into < 0 || into >= period {
			t.Errorf("Window(%d, %d) = %d, which leaves %d", now, period, index, into)
		}
	})
}

func TestInWindow(t *testing.T) {
	for _, tt := range []struct {
		index int64
		want  string
	}{
		{0, "k:0"},
		{-1, "k:-1"},
		{math.MinInt64, "k:-9223372036854775808"},
		{math.MaxInt64, "k:9223372036854775807"},
	} {
		if got := keys.InWindow("k", tt.index); got != tt.want {
			t.Errorf("InWindow(k, %d) = %q, want %q", tt.index, got, tt.want)
		}
	}
}

func BenchmarkInWindow(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sink = keys.InWindow("rl:{user:0123456789}:api:AAAA", 1_790_000_000)
	}
}

func ExampleInWindow() {
	const second = 1_000_000 // µs
	key := keys.For("rl", "user:42", "api", "x5Bq")
	fmt.Println(keys.InWindow(key, keys.Window(125*second, 60*second)))
	// Output: rl:{user:42}:api:x5Bq:2
}
