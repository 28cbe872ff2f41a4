package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/keys"
)

// alone is what is measured by one caller, without the load.
var alone = []struct {
	name    string
	measure func(context.Context, *rediscluster.Cluster) (bound, error)
}{
	{"a context of 10 ms at a stopped primary, by a client of the library's defaults", shortContext},
	{"a sliding_log of 10,000 comes back after a quiet window", logComesBack},
}

// playAlone measures each.
func (r *result) playAlone(ctx context.Context, c *rediscluster.Cluster) error {
	for _, a := range alone {
		b, err := a.measure(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		b.Name = a.name + ": " + b.Name
		r.Alone = append(r.Alone, b)
	}
	return nil
}

// aside returns a limiter on a client that nothing was set of, and a subject of
// the primary.
func aside(c *rediscluster.Cluster, node *rediscluster.Node, of func(subject string) bool) (*shardlimit.Limiter, string, func() error, error) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	l, err := shardlimit.New(rdb, shardlimit.Config{
		Prefix: "alone", Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Breaker: shardlimit.BreakerConfig{Disabled: true}, // each call is to wait
	})
	if err != nil {
		return nil, "", nil, errors.Join(err, rdb.Close())
	}
	end := func() error { return errors.Join(l.Close(), rdb.Close()) }
	for i := range 100_000 {
		if subject := fmt.Sprintf("user:%d", i); of(subject) {
			return l, subject, end, nil
		}
	}
	return nil, "", nil, errors.Join(fmt.Errorf("no subject for %s", node.Addr()), end())
}

// on returns whether a subject's slot is one of the primary's.
func on(ctx context.Context, node *rediscluster.Node) (func(subject string) bool, error) {
	slots, err := node.Slots(ctx)
	if err != nil {
		return nil, err
	}
	its := map[int]bool{}
	for _, s := range slots {
		its[s] = true
	}
	return func(subject string) bool { return its[int(keys.Slot(subject))] }, nil
}

// anyPrimary returns a primary, and a limiter that asks it for a subject.
func anyPrimary(ctx context.Context, c *rediscluster.Cluster) (*rediscluster.Node, *shardlimit.Limiter, string, func() error, error) {
	primaries, err := c.Primaries(ctx)
	if err != nil {
		return nil, nil, "", nil, err
	}
	of, err := on(ctx, primaries[0])
	if err != nil {
		return nil, nil, "", nil, err
	}
	l, subject, end, err := aside(c, primaries[0], of)
	return primaries[0], l, subject, end, err
}

// shortContext has a caller with 10 ms ask a primary that is stopped, again and
// again, for less time than it takes to replace it.
func shortContext(ctx context.Context, c *rediscluster.Cluster) (b bound, err error) {
	const own, calls = 10 * time.Millisecond, 50
	node, l, subject, end, err := anyPrimary(ctx, c)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, end()) }()
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "short", Limits: []shardlimit.Limit{shardlimit.PerDay(1e6)}})
	if _, err := l.Allow(ctx, p, subject); err != nil {
		return b, err
	}
	if err := node.Hang(ctx); err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, node.Resume(ctx)) }()
	var longest time.Duration
	for range calls {
		ctx, cancel := context.WithTimeout(ctx, own)
		began := time.Now()
		_, err := l.Allow(ctx, p, subject)
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
func logComesBack(ctx context.Context, c *rediscluster.Cluster) (b bound, err error) {
	const most, stall = 10_000, 5 * time.Millisecond
	node, l, subject, end, err := anyPrimary(ctx, c)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, end()) }()
	window := 2 * time.Second
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "log", Limits: []shardlimit.Limit{shardlimit.Per(most, window).WithAlgorithm(shardlimit.SlidingLog)},
	})
	for range most / 100 {
		if r, err := l.AllowN(ctx, p, subject, 100); err != nil || !r.Allowed {
			return b, fmt.Errorf("100 units of an empty log: %+v, %w", r, err)
		}
	}
	for _, set := range [][]any{
		{"CONFIG", "SET", "slowlog-log-slower-than", fmt.Sprint(stall.Microseconds())}, {"SLOWLOG", "RESET"},
	} {
		if err := node.Client().Do(ctx, set...).Err(); err != nil {
			return b, err
		}
	}
	if err := rediscluster.Pause(ctx, window-100*time.Millisecond); err != nil { // stale, and not gone: those that come keep it
		return b, err
	}
	for range most / 2 {
		if _, err := l.Allow(ctx, p, subject); err != nil {
			return b, err
		}
	}
	slow, err := node.Client().SlowLogGet(ctx, math.MaxInt16).Result()
	if err != nil {
		return b, err
	}
	var ours int
	for _, s := range slow {
		if len(s.Args) > 0 && strings.HasPrefix(strings.ToLower(s.Args[0]), "eval") {
			ours++
		}
	}
	return bound{Name: "scripts that kept Redis for 5 ms or more", Value: float64(ours)}, nil
}

// tableAlone writes a line for each.
func tableAlone(w io.Writer, r *result) error {
	var text strings.Builder
	for _, b := range r.Alone {
		verdict := "PASS"
		if !b.kept() {
			verdict = "late"
		}
		fmt.Fprintf(&text, "%s %.1f, at most %.0f: %s\n", b.Name, b.Value, b.Most, verdict)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
