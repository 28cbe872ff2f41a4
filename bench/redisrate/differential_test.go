// Package redisrate_test compares compat/redisrate with the limiter whose API it
// has.
package redisrate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	original "github.com/go-redis/redis_rate/v10"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/compat/redisrate"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// slow is the time of an event of the test's limits, in whole seconds, by which
// the original counts without rounding. None comes back within a test.
const slow = 360 * time.Second

// Both are asked the same, in turn. What they answer is the same, and times are
// no further apart than the test has taken.
func TestAnswersAreThoseOfTheOriginal(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	began := time.Now()
	theirs, ours := limiters(t)
	for trial := range 40 {
		key, burst := fmt.Sprintf("%s-%d-%d", redistest.Prefix(t), seed, trial), random.IntN(12)
		for range 25 {
			v := verb{name: verbs[random.IntN(len(verbs))], key: key, burst: burst, n: random.IntN(2 + burst*3/2)}
			if random.IntN(3) == 0 {
				v.n = random.IntN(2)
			}
			want, got := v.ask(t, theirs), v.ask(t, ours)
			if got.Limit != want.Limit || got.Allowed != want.Allowed || got.Remaining != want.Remaining ||
				!near(got.RetryAfter, want.RetryAfter, began) || !near(got.ResetAfter, want.ResetAfter, began) {
				t.Fatalf("%+v: %+v, the original %+v", v, got, want)
			}
		}
	}
}

// near reports whether two times are as one, where one may have been told later
// than the other. -1 is no time: it's near none but itself.
func near(got, want time.Duration, began time.Time) bool {
	if got == -1 || want == -1 {
		return got == want
	}
	return (got - want).Abs() <= time.Since(began)+time.Millisecond
}

var verbs = []string{"AllowN", "AllowN", "AllowN", "AllowAtMost", "Reset"}

// verb is a call, for both.
type verb struct {
	name, key string
	burst, n  int
}

// limiter is either, in the original's types.
type limiter struct {
	allowN, allowAtMost asks
	reset               func(ctx context.Context, key string) error
}

type asks = func(ctx context.Context, key string, limit original.Limit, n int) (*original.Result, error)

// ask makes the call. Reset has the zero Result.
func (v verb) ask(t *testing.T, l limiter) original.Result {
	t.Helper()
	limit, r := original.Limit{Rate: 10, Burst: v.burst, Period: 10 * slow}, &original.Result{}
	var err error
	switch v.name {
	case "AllowN":
		r, err = l.allowN(t.Context(), v.key, limit, v.n)
	case "AllowAtMost":
		r, err = l.allowAtMost(t.Context(), v.key, limit, v.n)
	default:
		err = l.reset(t.Context(), v.key)
	}
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	return *r
}

// limiters returns both, on one cluster.
func limiters(t *testing.T) (theirs, ours limiter) {
	t.Helper()
	rdb := redistest.Client(t, redistest.Shared(t), nil)
	decides, err := shardlimit.New(rdb, shardlimit.Config{Prefix: "rate", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = decides.Close() })
	o, c := original.NewLimiter(rdb), redisrate.From(decides)
	return limiter{o.AllowN, o.AllowAtMost, o.Reset}, limiter{adapt(c.AllowN), adapt(c.AllowAtMost), c.Reset}
}

// adapt returns a method of ours in the original's types.
func adapt(ask func(context.Context, string, redisrate.Limit, int) (*redisrate.Result, error)) asks {
	return func(ctx context.Context, key string, limit original.Limit, n int) (*original.Result, error) {
		r, err := ask(ctx, key, redisrate.Limit(limit), n)
		if err != nil {
			return nil, err
		}
		return &original.Result{
			Limit: original.Limit(r.Limit), Allowed: r.Allowed, Remaining: r.Remaining,
			RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter,
		}, nil
	}
}
