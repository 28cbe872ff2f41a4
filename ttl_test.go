package shardlimit_test

import (
	"maps"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Keys of periods as short as may be end, and so do those of rates as high and as
// low as may be: no TTL is 0, none overflows, by the servers' own clocks.
func TestClusterKeysEndAtTheExtremes(t *testing.T) {
	all := map[string][]shardlimit.Limit{
		"3,000,000 a second": {shardlimit.PerSecond(3_000_000)},
		"1e9 a second":       {shardlimit.PerSecond(1e9)},
		"1e9 a millisecond":  {shardlimit.Per(1e9, time.Millisecond)},
		"1 in 366 days":      {shardlimit.Per(1, long).WithBurst(9)},
		"62.5 µs apart":      {shardlimit.PerSecond(16_000).WithAlgorithm(shardlimit.GCRA)},
		"10 years of burst":  {shardlimit.PerDay(1).WithBurst(3653)},
	}
	for _, period := range []time.Duration{time.Millisecond, 500 * time.Millisecond, 366 * 24 * time.Hour} {
		short := kinds(5, period)
		for name, limits := range maps.All(short) {
			all[name+" by "+period.String()] = limits
		}
	}
	rdb := client(t)
	for name, limits := range all {
		t.Run(name, func(t *testing.T) {
			prefix := redistest.Prefix(t)
			l := newOn(t, rdb, shardlimit.Config{Prefix: prefix, Timeout: patient})
			p := policy(t, limits...)
			const slack = 11 * time.Second // a fixed window is kept 10 s for a clock that steps back
			var longest time.Duration      // that anything used is still used
			for _, c := range callsOf(t, l, p) {
				r := c.make()
				if r.Failure != nil {
					t.Errorf("%s = %+v, want Redis's answer", c.name, r)
				}
				longest = max(longest, r.ResetAfter)
				for key, ttl := range ttls(t, rdb, prefix) {
					// PTTL rounds down, so 0 is a part of 1 ms; -2: ended meanwhile; -1: never ends
					if ttl == -1 || ttl > longest+slack {
						t.Errorf("after %s: %s lives for %v, where all is unused after %v", c.name, key, ttl, longest)
					}
				}
			}
		})
	}
}
