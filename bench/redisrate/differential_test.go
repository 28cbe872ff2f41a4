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

// answer is a Result of either.
type answer struct {
	allowed, remaining int
	retry, reset       time.Duration
}

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
		key, burst := fmt.Sprintf("%s-%d", redistest.Prefix(t), trial), random.IntN(12)
		for range 25 {
			v := verb{name: verbs[random.IntN(len(verbs))], key: key, burst: burst, n: random.IntN(2 + burst*3/2)}
			if random.IntN(3) == 0 {
				v.n = random.IntN(2)
			}
			want, got := v.ask(t, theirs), v.ask(t, ours)
			if got.allowed != want.allowed || got.remaining != want.remaining ||
				!near(got.retry, want.retry, began) || !near(got.reset, want.reset, began) {
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

// both are what a call is asked of.
type limiter interface {
	allowN(ctx context.Context, v verb) (answer, error)
	allowAtMost(ctx context.Context, v verb) (answer, error)
	reset(ctx context.Context, key string) error
}

func (v verb) ask(t *testing.T, l limiter) answer {
	t.Helper()
	var a answer
	var err error
	switch v.name {
	case "AllowN":
		a, err = l.allowN(t.Context(), v)
	case "AllowAtMost":
		a, err = l.allowAtMost(t.Context(), v)
	default:
		err = l.reset(t.Context(), v.key)
	}
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	return a
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
	return originals{original.NewLimiter(rdb)}, compatible{redisrate.From(decides)}
}

type originals struct{ l *original.Limiter }

func (o originals) limit(v verb) original.Limit {
	return original.Limit{Rate: 10, Burst: v.burst, Period: 10 * slow}
}

func (o originals) allowN(ctx context.Context, v verb) (answer, error) {
	return o.answer(o.l.AllowN(ctx, v.key, o.limit(v), v.n))
}

func (o originals) allowAtMost(ctx context.Context, v verb) (answer, error) {
	return o.answer(o.l.AllowAtMost(ctx, v.key, o.limit(v), v.n))
}

func (o originals) reset(ctx context.Context, key string) error { return o.l.Reset(ctx, key) }

func (originals) answer(r *original.Result, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{r.Allowed, r.Remaining, r.RetryAfter, r.ResetAfter}, nil
}

type compatible struct{ l *redisrate.Limiter }

func (c compatible) limit(v verb) redisrate.Limit {
	return redisrate.Limit{Rate: 10, Burst: v.burst, Period: 10 * slow}
}

func (c compatible) allowN(ctx context.Context, v verb) (answer, error) {
	return c.answer(c.l.AllowN(ctx, v.key, c.limit(v), v.n))
}

func (c compatible) allowAtMost(ctx context.Context, v verb) (answer, error) {
	return c.answer(c.l.AllowAtMost(ctx, v.key, c.limit(v), v.n))
}

func (c compatible) reset(ctx context.Context, key string) error { return c.l.Reset(ctx, key) }

func (compatible) answer(r *redisrate.Result, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{r.Allowed, r.Remaining, r.RetryAfter, r.ResetAfter}, nil
}
