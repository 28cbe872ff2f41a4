package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/keys"
)

// measure is a figure that one caller takes, without the load.
type measure struct {
	name string
	take func(context.Context, *caller) (bound, error)
}

var byOne = []measure{
	{"a context of 10 ms at a stopped primary, by a client of the library's defaults", shortContext},
	{"a sliding_log of 10,000 comes back after a quiet window", logComesBack},
}

// playAlone takes each.
func (r *result) playAlone(ctx context.Context, c *rediscluster.Cluster, measures []measure) error {
	for _, m := range measures {
		b, err := m.play(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		b.Name = m.name + ": " + b.Name
		r.Alone = append(r.Alone, b)
	}
	return nil
}

func (m *measure) play(ctx context.Context, c *rediscluster.Cluster) (b bound, err error) {
	one, err := newCaller(ctx, c)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, one.close()) }()
	return m.take(ctx, one)
}

// caller asks one primary for one of its subjects, by a limiter on a client that
// nothing was set of.
type caller struct {
	primary *rediscluster.Node
	rdb     *redis.ClusterClient
	limiter *shardlimit.Limiter
	subject string
}

func newCaller(ctx context.Context, c *rediscluster.Cluster) (*caller, error) {
	primaries, err := c.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	subject, err := subjectOf(ctx, primaries[0])
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	l, err := shardlimit.New(rdb, shardlimit.Config{
		Prefix: "alone", Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Breaker: shardlimit.BreakerConfig{Disabled: true}, // each call is to wait
	})
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &caller{primaries[0], rdb, l, subject}, nil
}

func (c *caller) close() error { return errors.Join(c.limiter.Close(), c.rdb.Close()) }

// subjectOf returns a subject whose slot is one of the primary's.
func subjectOf(ctx context.Context, primary *rediscluster.Node) (string, error) {
	slots, err := primary.Slots(ctx)
	if err != nil {
		return "", err
	}
	for i := range 100_000 {
		if subject := fmt.Sprintf("user:%d", i); slices.Contains(slots, int(keys.Slot(subject))) {
			return subject, nil
		}
	}
	return "", fmt.Errorf("no subject for %s", primary.Addr())
}

// shortContext has a caller with 10 ms ask a primary that is stopped, again and
// again, for less time than it takes to replace it.
func shortContext(ctx context.Context, c *caller) (b bound, err error) {
	const own, calls = 10 * time.Millisecond, 50
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "short", Limits: []shardlimit.Limit{shardlimit.PerDay(1e6)}})
	if _, err := c.limiter.Allow(ctx, p, c.subject); err != nil {
		return b, err
	}
	if err := c.primary.Hang(ctx); err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, c.primary.Resume(ctx)) }()
	var longest time.Duration
	for range calls {
		ctx, cancel := context.WithTimeout(ctx, own)
		began := time.Now()
		_, err := c.limiter.Allow(ctx, p, c.subject)
		longest = max(longest, time.Since(began))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return b, fmt.Errorf("not the end of the context: %w", cmp.Or(err, errAnswered))
		}
	}
	return bound{Name: "longest call, ms", Value: ms(longest), Most: 15}, nil
}

// errAnswered says that a stopped primary answered.
var errAnswered = errors.New("an answer")

// logComesBack fills the largest log that there is, lets all of it go stale, and
// has one unit after the other ask again. No script may keep Redis for 5 ms.
func logComesBack(ctx context.Context, c *caller) (b bound, err error) {
	const most, stall, window = 10_000, 5 * time.Millisecond, 2 * time.Second
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "log", Limits: []shardlimit.Limit{shardlimit.Per(most, window).WithAlgorithm(shardlimit.SlidingLog)},
	})
	for range most / 100 {
		if r, err := c.limiter.AllowN(ctx, p, c.subject, 100); err != nil || !r.Allowed {
			return b, fmt.Errorf("100 units of an empty log: %+v, %w", r, err)
		}
	}
	if err := logSlow(ctx, c.primary, stall); err != nil {
		return b, err
	}
	if err := rediscluster.Pause(ctx, window-100*time.Millisecond); err != nil { // stale, and not gone: those that come keep it
		return b, err
	}
	for range most / 2 {
		if _, err := c.limiter.Allow(ctx, p, c.subject); err != nil {
			return b, err
		}
	}
	n, err := slowScripts(ctx, c.primary)
	return bound{Name: "scripts that kept Redis for 5 ms or more", Value: float64(n)}, err
}

// logSlow makes a node's log of what took so long or longer begin anew.
func logSlow(ctx context.Context, node *rediscluster.Node, least time.Duration) error {
	rdb := node.Client()
	return errors.Join(
		rdb.ConfigSet(ctx, "slowlog-log-slower-than", fmt.Sprint(least.Microseconds())).Err(), rdb.SlowLogReset(ctx).Err(),
	)
}

// slowScripts returns how many scripts are in a node's log.
func slowScripts(ctx context.Context, node *rediscluster.Node) (n int, err error) {
	slow, err := node.Client().SlowLogGet(ctx, math.MaxInt16).Result()
	for _, s := range slow {
		if len(s.Args) > 0 && strings.HasPrefix(strings.ToLower(s.Args[0]), "eval") {
			n++
		}
	}
	return n, err
}
