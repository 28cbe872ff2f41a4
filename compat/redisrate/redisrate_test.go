package redisrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	redis_rate "github.com/shardlimit/shardlimit/compat/redisrate"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// perHour is the limit of the tests: an event each six minutes, so that none
// comes back while a test runs.
var perHour = redis_rate.PerHour(10)

const event = 6 * time.Minute

// newLimiter returns a Limiter on the shared cluster that has time enough on a
// busy machine, and a key of the test's own.
func newLimiter(t *testing.T) (*redis_rate.Limiter, string) {
	t.Helper()
	decides, err := shardlimit.New(redistest.Client(t, redistest.Shared(t), nil), shardlimit.Config{Prefix: "rate", Timeout: 10 * time.Second})
	closing.Opened(t, decides, err)
	return redis_rate.From(decides), redistest.Prefix(t)
}

// method is one of those that ask for events.
type method = func(ctx context.Context, key string, limit redis_rate.Limit, n int) (*redis_rate.Result, error)

// step is a call and its right answer, where what was used before a test began
// is nothing.
type step struct {
	name      string
	call      method
	n         int
	allowed   int
	remaining int
	retry     int // events' time, less what has gone by; -1: none
	reset     int // the same
}

// follow checks each step in order.
func follow(t *testing.T, key string, limit redis_rate.Limit, steps []step) {
	t.Helper()
	began := time.Now()
	for i, s := range steps {
		r, err := s.call(t.Context(), key, limit, s.n)
		if err != nil {
			t.Fatalf("step %d, %s(%d): %v", i, s.name, s.n, err)
		}
		if r.Limit != limit || r.Allowed != s.allowed || r.Remaining != s.remaining {
			t.Errorf("step %d, %s(%d) = %+v, want %d allowed and %d remaining", i, s.name, s.n, *r, s.allowed, s.remaining)
		}
		if s.retry < 0 && r.RetryAfter != -1 || s.retry >= 0 && !about(r.RetryAfter, s.retry, began) {
			t.Errorf("step %d, %s(%d): RetryAfter %v, want the time of %d events", i, s.name, s.n, r.RetryAfter, s.retry)
		}
		if !about(r.ResetAfter, s.reset, began) {
			t.Errorf("step %d, %s(%d): ResetAfter %v, want the time of %d events", i, s.name, s.n, r.ResetAfter, s.reset)
		}
	}
}

// about reports whether d is the time of so many events, less no more than what
// has gone by since the test began.
func about(d time.Duration, events int, began time.Time) bool {
	most := time.Duration(events) * event
	return d <= most+time.Microsecond && d >= most-time.Since(began)
}

func TestAllowNTakesAllOrNone(t *testing.T) {
	l, key := newLimiter(t)
	follow(t, key, perHour, []step{
		{"AllowN", l.AllowN, 0, 0, 10, -1, 0}, // it looks
		{"AllowN", l.AllowN, 1, 1, 9, -1, 1},
		{"AllowN", l.AllowN, 0, 0, 9, -1, 1},
		{"AllowN", l.AllowN, 2, 2, 7, -1, 3},
		{"AllowN", l.AllowN, 8, 0, 0, 1, 3}, // one too many: denied, and says that none remain
		{"AllowN", l.AllowN, 0, 0, 7, -1, 3},
		{"AllowN", l.AllowN, 7, 7, 0, -1, 10},
		{"AllowN", l.AllowN, 1, 0, 0, 1, 10},
		{"AllowN", l.AllowN, 0, 0, 0, -1, 10},
	})
}

func TestAllowIsAllowNOfOne(t *testing.T) {
	l, key := newLimiter(t)
	for remaining := 9; remaining >= 0; remaining-- {
		r, err := l.Allow(t.Context(), key, perHour)
		if err != nil || r.Allowed != 1 || r.Remaining != remaining || r.RetryAfter != -1 {
			t.Errorf("Allow = %+v, %v; want 1 allowed and %d remaining", r, err, remaining)
		}
	}
	r, err := l.Allow(t.Context(), key, perHour)
	if err != nil || r.Allowed != 0 || r.Remaining != 0 || r.RetryAfter <= 0 {
		t.Errorf("Allow of an 11th = %+v, %v; want it denied, and how long", r, err)
	}
}

func TestAllowNDeniesWhatIsAboveTheBurst(t *testing.T) {
	l, key := newLimiter(t)
	follow(t, key, perHour, []step{
		{"AllowN", l.AllowN, 1000, 0, 0, 990, 0},
		{"AllowN", l.AllowN, 3, 3, 7, -1, 3},
		{"AllowN", l.AllowN, 11, 0, 0, 4, 3},
		{"AllowN", l.AllowN, 1000, 0, 0, 993, 3},
		{"AllowN", l.AllowN, 7, 7, 0, -1, 10}, // those that were denied cost nothing
		{"AllowN", l.AllowN, 1000, 0, 0, 1000, 10},
	})
}

func TestAllowAtMostTakesWhatFits(t *testing.T) {
	l, key := newLimiter(t)
	follow(t, key, perHour, []step{
		{"AllowAtMost", l.AllowAtMost, 0, 0, 10, -1, 0}, // it looks
		{"AllowAtMost", l.AllowAtMost, 2, 2, 8, -1, 2},
		{"AllowAtMost", l.AllowAtMost, 0, 0, 8, -1, 2},
		{"AllowN", l.AllowN, 1, 1, 7, -1, 3},
		{"AllowAtMost", l.AllowAtMost, 1000, 7, 0, -1, 10},
		{"AllowAtMost", l.AllowAtMost, 1000, 0, 0, 1, 10}, // the wait for one
		{"AllowAtMost", l.AllowAtMost, 0, 0, 0, 1, 10},
		{"AllowN", l.AllowN, 1000, 0, 0, 1000, 10},
	})
}

func TestBurstIsNotTheRate(t *testing.T) {
	l, key := newLimiter(t)
	limit := redis_rate.Limit{Rate: 10, Burst: 3, Period: time.Hour}
	follow(t, key, limit, []step{
		{"AllowN", l.AllowN, 4, 0, 0, 1, 0},
		{"AllowN", l.AllowN, 3, 3, 0, -1, 3},
		{"AllowAtMost", l.AllowAtMost, 2, 0, 0, 1, 3},
	})
}

func TestBurstOfZeroAllowsNothing(t *testing.T) {
	l, key := newLimiter(t)
	limit := redis_rate.Limit{Rate: 10, Period: time.Hour}
	follow(t, key, limit, []step{
		{"AllowN", l.AllowN, 0, 0, 0, -1, 0},
		{"AllowN", l.AllowN, 1, 0, 0, 1, 0},
		{"AllowN", l.AllowN, 5, 0, 0, 5, 0},
		{"AllowAtMost", l.AllowAtMost, 0, 0, 0, 1, 0},
		{"AllowAtMost", l.AllowAtMost, 5, 0, 0, 1, 0},
	})
}

func TestResetForgetsWhatWasUsedUnderEveryPeriod(t *testing.T) {
	l, key := newLimiter(t)
	ctx := t.Context()
	limits := []redis_rate.Limit{
		perHour, redis_rate.PerMinute(10),
		{Rate: 10, Burst: 10, Period: 90 * time.Minute},
		{Rate: 1e9, Burst: 10, Period: 24 * time.Hour}, // a token bucket
	}
	for _, limit := range limits {
		if r, err := l.AllowN(ctx, key, limit, 10); err != nil || r.Allowed != 10 {
			t.Fatalf("AllowN under %v = %+v, %v; want 10 allowed", limit, r, err)
		}
	}
	if err := l.Reset(ctx, key); err != nil {
		t.Fatal(err)
	}
	for _, limit := range limits {
		if r, err := l.AllowN(ctx, key, limit, 10); err != nil || r.Allowed != 10 {
			t.Errorf("AllowN under %v after Reset = %+v, %v; want 10 allowed", limit, r, err)
		}
	}
}

// A Limiter that has never been asked resets what others have counted by the
// second, the minute and the hour.
func TestResetNeedsNoCallBefore(t *testing.T) {
	l, key := newLimiter(t)
	other, _ := newLimiter(t)
	if r, err := l.AllowN(t.Context(), key, perHour, 10); err != nil || r.Allowed != 10 {
		t.Fatalf("AllowN = %+v, %v; want 10 allowed", r, err)
	}
	if err := other.Reset(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Allow(t.Context(), key, perHour); err != nil || r.Remaining != 9 {
		t.Errorf("Allow after Reset = %+v, %v; want 9 remaining", r, err)
	}
}

func TestLimitsOfOnePeriodShareACount(t *testing.T) {
	l, key := newLimiter(t)
	for _, tt := range []struct {
		limit     redis_rate.Limit
		remaining int
	}{
		{perHour, 9},
		{redis_rate.PerHour(20), 17}, // a tenth of the burst is used
		{redis_rate.PerMinute(10), 9},
	} {
		if r, err := l.Allow(t.Context(), key, tt.limit); err != nil || r.Remaining != tt.remaining {
			t.Errorf("Allow under %v = %+v, %v; want %d remaining", tt.limit, r, err, tt.remaining)
		}
	}
}

// The rates at which redis_rate is used pass, also those that GCRA can't count.
func TestRatesOfAllSizesDecide(t *testing.T) {
	l, key := newLimiter(t)
	for _, limit := range []redis_rate.Limit{
		redis_rate.PerSecond(1), redis_rate.PerSecond(16_000), redis_rate.PerSecond(16_001), redis_rate.PerSecond(1e6),
		redis_rate.PerMinute(7),
		{Rate: 1, Burst: 1, Period: time.Millisecond},
		{Rate: 1, Burst: 1, Period: 100 * time.Microsecond},
		{Rate: 1, Burst: 5, Period: time.Second / 3},
		{Rate: 1e9, Burst: 1e9, Period: time.Second},
	} {
		r, err := l.Allow(t.Context(), key+limit.String(), limit)
		if err != nil || r.Allowed != 1 || r.Remaining != limit.Burst-1 || r.RetryAfter != -1 {
			t.Errorf("Allow under %v = %+v, %v; want it allowed, and %d remaining", limit, r, err, limit.Burst-1)
		}
	}
}

// A denied caller is told to wait no longer than an event takes.
func TestRetryAfterIsAtMostOneEvent(t *testing.T) {
	l, key := newLimiter(t)
	limit := redis_rate.Limit{Rate: 1, Period: time.Millisecond, Burst: 1}
	for range 200 {
		r, err := l.Allow(t.Context(), key, limit)
		if err != nil || r.Allowed == 0 && (r.RetryAfter <= 0 || r.RetryAfter > time.Millisecond) {
			t.Fatalf("Allow = %+v, %v; want RetryAfter within 1ms", r, err)
		}
	}
}

func TestLimitAsText(t *testing.T) {
	for _, tt := range []struct {
		limit redis_rate.Limit
		text  string
		zero  bool
	}{
		{redis_rate.PerSecond(10), "10 req/s (burst 10)", false},
		{redis_rate.PerMinute(5), "5 req/m (burst 5)", false},
		{redis_rate.PerHour(1), "1 req/h (burst 1)", false},
		{redis_rate.Limit{Rate: 3, Burst: 4, Period: 90 * time.Second}, "3 req/1m30s (burst 4)", false},
		{redis_rate.Limit{}, "0 req/0s (burst 0)", true},
	} {
		if tt.limit.String() != tt.text || tt.limit.IsZero() != tt.zero {
			t.Errorf("%+v: %q, IsZero %t; want %q, %t", tt.limit, tt.limit, tt.limit.IsZero(), tt.text, tt.zero)
		}
	}
}

func TestRedisAwayIsAnError(t *testing.T) {
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})) // nobody listens there
	l := closing.AtEnd(t, redis_rate.NewLimiter(rdb))
	for name, call := range map[string]method{"AllowN": l.AllowN, "AllowAtMost": l.AllowAtMost} {
		for _, n := range []int{0, 1, 1000} {
			r, err := call(t.Context(), "key", perHour, n)
			if _, ok := errors.AsType[*shardlimit.UnavailableError](err); !ok || r != nil {
				t.Errorf("%s(%d) = %v, %v; want an *UnavailableError", name, n, r, err)
			}
		}
	}
	if _, ok := errors.AsType[*shardlimit.UnavailableError](l.Reset(t.Context(), "key")); !ok {
		t.Error("Reset: want an *UnavailableError")
	}
}

func TestWhatCannotBeAskedIsAnError(t *testing.T) {
	l, key := newLimiter(t)
	for _, tt := range []struct {
		name  string
		key   string
		limit redis_rate.Limit
		n     int
		want  string
	}{
		{"the zero Limit", key, redis_rate.Limit{}, 1, "Limits[0].Rate: 0"},
		{"a negative rate", key, redis_rate.PerSecond(-1), 1, "Limits[0].Rate: -1"},
		{"a negative burst", key, redis_rate.Limit{Rate: 1, Burst: -1, Period: time.Second}, 1, "Limits[0].Burst: -1"},
		{"too high a rate", key, redis_rate.Limit{Rate: 1 << 62, Burst: 1, Period: time.Nanosecond}, 1, "Limits[0].Rate: 4611686018427387904"},
		{"too long a period", key, redis_rate.Limit{Rate: 1, Burst: 1, Period: 1<<63 - 1}, 0, "Limits[0].Period"},
		{"fewer than no events", key, perHour, -1, "cost -1"},
		{"no key", "", perHour, 1, "the subject is empty"},
	} {
		for name, call := range map[string]method{"AllowN": l.AllowN, "AllowAtMost": l.AllowAtMost} {
			r, err := call(t.Context(), tt.key, tt.limit, tt.n)
			if r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, %s(%d) = %v, %v; want an error with %q", tt.name, name, tt.n, r, err, tt.want)
			}
		}
	}
}

func TestClientThatFollowsNoSlotsIsAnErrorOfEachCall(t *testing.T) {
	ring := closing.AtEnd(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}))
	l := redis_rate.NewLimiter(ring)
	_, err := l.Allow(t.Context(), "key", perHour)
	for _, err := range []error{err, l.Reset(t.Context(), "key")} {
		if c, ok := errors.AsType[*shardlimit.ConfigError](err); !ok || c.Field != "rdb" {
			t.Errorf("on a Ring: %v, want a *ConfigError of rdb", err)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestCopiesAreTheSameLimiter(t *testing.T) {
	l, key := newLimiter(t)
	copied := *l
	if r, err := copied.Allow(t.Context(), key, perHour); err != nil || r.Remaining != 9 {
		t.Errorf("Allow of a copy = %+v, %v; want 9 remaining", r, err)
	}
	if r, err := l.Allow(t.Context(), key, perHour); err != nil || r.Remaining != 8 {
		t.Errorf("Allow after it = %+v, %v; want 8 remaining", r, err)
	}
}
