package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// What must never be is found when it is planted.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, Servers(""))
	o := Options{Rate: 400, Subjects: 40, Limiters: 1, Timeout: time.Second, Calm: 200 * time.Millisecond}
	for name, s := range map[string]Scenario{
		"charged twice: 3": {act: func(ctx context.Context, f *fault) error { return chargeAgain(ctx, f, 3) }},
		"charges gone that were not at risk": {act: func(ctx context.Context, f *fault) error {
			return do(ctx, f.primary(), "FLUSHALL")
		}},
		"over beyond what was at risk":             {act: refill},
		"no call was answered by its failure mode": {Outage: true, act: func(context.Context, *fault) error { return nil }},
		"an error: ": {act: forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			s.Name = name
			r, err := Run(t.Context(), c, s, o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(append(r.Broken, r.Missed...), func(b string) bool { return strings.HasPrefix(b, name) }) {
				t.Errorf("broken %q, of %+v; want %q", r.Broken, r.Account, name)
			}
		})
	}
}

// chargeAgain charges units behind the load's back, to the first subject.
func chargeAgain(ctx context.Context, f *fault, units int64) error {
	return beside(f, func(l *shardlimit.Limiter) error {
		first := &f.load.subjects[0]
		_, err := l.AllowN(ctx, first.policy, first.name, units)
		return err
	})
}

// refill empties a shard once one of its subjects has had all that it may have,
// and waits until it has had more.
func refill(ctx context.Context, f *fault) error {
	i := slices.IndexFunc(f.load.subjects, func(s subject) bool {
		return s.shard == f.target && s.policy.Limits()[0].Rate == exhausted
	})
	s := &f.load.subjects[i]
	return beside(f, func(l *shardlimit.Limiter) error {
		none := func(ctx context.Context) error {
			return await(ctx, func() (bool, error) {
				r, err := l.Peek(ctx, s.policy, s.name)
				return r.Remaining == 0, err
			})
		}
		flush := func(ctx context.Context) error { return do(ctx, f.primary(), "FLUSHALL") }
		return inTurn(ctx, none, flush, none)
	})
}

// beside uses one more limiter of the load's keys.
func beside(f *fault, use func(*shardlimit.Limiter) error) error {
	l, err := shardlimit.Open(f.cluster.ClientOptions(), shardlimit.Config{Prefix: f.prefix, Timeout: patience})
	if err != nil {
		return err
	}
	return errors.Join(use(l), l.Close())
}
