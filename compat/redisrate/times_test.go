package redisrate_test

import (
	"testing"
	"time"

	redis_rate "github.com/shardlimit/shardlimit/compat/redisrate"
)

// RetryAfter is the time until the next request is permitted: who waits for it
// passes, if nobody else asks.
func TestWhoWaitsRetryAfterIsAllowed(t *testing.T) {
	l, key := newLimiter(t)
	for name, limit := range map[string]redis_rate.Limit{
		"gcra":         {Rate: 1, Burst: 1, Period: 50 * time.Millisecond},
		"token bucket": {Rate: 20_001, Burst: 1000, Period: time.Second},
	} {
		for call, ask := range map[string]method{"AllowN": l.AllowN, "AllowAtMost": l.AllowAtMost} {
			of, denied := key+name+call, 0
			for range 5 {
				r, err := ask(t.Context(), of, limit, limit.Burst)
				if err != nil {
					t.Fatal(err)
				}
				if r.Allowed > 0 {
					continue
				}
				denied++
				time.Sleep(r.RetryAfter)
				again, err := ask(t.Context(), of, limit, limit.Burst)
				if err != nil || again.Allowed == 0 {
					t.Errorf("%s, %s: %+v; after that RetryAfter %+v, %v; want it allowed", name, call, r, again, err)
				}
			}
			t.Logf("%s, %s: denied %d times", name, call, denied)
		}
	}
}

// ResetAfter is the time until Limit and Remaining are equal.
func TestAfterResetAfterNothingIsUsed(t *testing.T) {
	l, key := newLimiter(t)
	limit := redis_rate.Limit{Rate: 100, Burst: 20, Period: time.Second}
	r, err := l.AllowN(t.Context(), key, limit, 20)
	if err != nil || r.Allowed != 20 || r.ResetAfter <= 0 {
		t.Fatalf("AllowN(20) = %+v, %v; want 20 allowed, and until when", r, err)
	}
	time.Sleep(r.ResetAfter)
	if r, err = l.AllowN(t.Context(), key, limit, 0); err != nil || r.Remaining != 20 || r.ResetAfter != 0 {
		t.Errorf("ResetAfter later: %+v, %v; want 20 remaining", r, err)
	}
}

// Each key has a count of its own.
func TestKeysCountApart(t *testing.T) {
	l, key := newLimiter(t)
	for _, k := range []string{key + ":a", key + ":b", "{" + key + "}:a"} {
		if r, err := l.AllowN(t.Context(), k, perHour, 4); err != nil || r.Allowed != 4 || r.Remaining != 6 {
			t.Errorf("AllowN of %s = %+v, %v; want 4 allowed and 6 remaining", k, r, err)
		}
	}
}
