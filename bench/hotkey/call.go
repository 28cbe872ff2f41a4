package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/table"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

const (
	// patience is the timeout of a decision: late ones are not left out.
	patience = 10 * time.Second
	callers  = 64
	// plenty is a limit that is never reached, of a window that does not end.
	plenty = 1_000_000_000
)

// caller is a way to decide about one hot key.
type caller struct {
	name string
	// allow decides once. It reports whether the request passed.
	allow func(ctx context.Context) (bool, error)
	// used returns how many units Redis says are used.
	used func(ctx context.Context) (int64, error)
	// forgotten returns how many of them were lent, and could not be given back in
	// time.
	forgotten func() int64
	close     func() error

	passed atomic.Int64
	rates  []float64 // decisions/s, a round each
}

// callAll prints how many decisions a second 64 callers get, as multiples of the
// same script by Script.Run in the same rounds.
func callAll(ctx context.Context, servers *rediscluster.Cluster, turn time.Duration, rounds int) (err error) {
	window := windowOf(time.Now())
	all := []*caller{scriptCaller(servers, window)}
	for _, c := range []struct {
		name   string
		limit  int64
		leases shardlimit.LeaseMode
	}{{"leases off", plenty, shardlimit.LeaseOff}, {"leases on", plenty, shardlimit.LeaseAuto}, {"all refused", 1, shardlimit.LeaseAuto}} {
		limit := shardlimit.Per(c.limit, window).WithAlgorithm(shardlimit.FixedWindow)
		next, err := limiterCaller(servers, c.name, limit, c.leases)
		if err != nil {
			return err
		}
		all = append(all, next)
	}
	for range rounds {
		for _, c := range all {
			if err := c.run(ctx, turn); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	fmt.Printf("\n%d callers, one key, medians of %d rounds of %v\n\n", callers, rounds, turn)
	t := table.New("", "decisions/s", "of Script.Run", "passed", "used", "forgotten")
	for _, c := range all {
		if err := c.add(ctx, t, all[0]); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return errors.Join(t.Print(os.Stdout), all[0].close())
}

// windowOf returns a length of windows of whose edges none is near.
func windowOf(now time.Time) time.Duration {
	for window := 20 * time.Hour; ; window -= time.Hour {
		if in := time.Duration(now.UnixNano()) % window; in > window/8 && in < window-window/8 {
			return window
		}
	}
}

// scriptCaller runs the script of a fixed window by Script.Run, on a client as it
// comes.
func scriptCaller(servers *rediscluster.Cluster, window time.Duration) *caller {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers.Addrs(), ReadTimeout: patience})
	call := scripts.Call{
		Plan: scripts.NewPlan(rule.Limit{Algorithm: rule.FixedWindow, Rate: plenty, Period: window.Microseconds()}),
		Cost: 1, Count: 1,
	}
	call.Window = call.InWindow(time.Now().UnixMicro())
	name := []string{"rl:{hot}:script:" + strconv.FormatInt(call.Window, 10)}
	script, args := redis.NewScript(call.Script().Text), call.AppendArgs(nil)
	return &caller{
		name:      "Script.Run",
		allow:     func(ctx context.Context) (bool, error) { return true, script.Run(ctx, rdb, name, args...).Err() },
		used:      func(ctx context.Context) (int64, error) { return rdb.Get(ctx, name[0]).Int64() },
		forgotten: func() int64 { return 0 },
		close:     rdb.Close,
	}
}

// limiterCaller decides by Limiter.Allow.
func limiterCaller(servers *rediscluster.Cluster, name string, limit shardlimit.Limit, leases shardlimit.LeaseMode) (*caller, error) {
	policy, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{
		Name: "bench", Limits: []shardlimit.Limit{limit}, Leases: leases, OnFailure: shardlimit.FailClosed(),
	})
	if err != nil {
		return nil, err
	}
	open := func() (*shardlimit.Limiter, error) {
		return shardlimit.Open(&redis.ClusterOptions{Addrs: servers.Addrs(), ReadTimeout: patience}, shardlimit.Config{Timeout: patience})
	}
	l, err := open()
	if err != nil {
		return nil, err
	}
	return &caller{
		name: name,
		allow: func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, policy, name)
			return r.Allowed, errors.Join(err, r.Failure)
		},
		used: func(ctx context.Context) (int64, error) {
			other, err := open()
			if err != nil {
				return 0, err
			}
			r, err := other.Peek(ctx, policy, name)
			return limit.Rate - r.Remaining, errors.Join(err, r.Failure, other.Close())
		},
		forgotten: func() int64 { return l.Inspect().HotKeys.Counts.Forgotten },
		close:     l.Close,
	}, nil
}

// run lets the callers decide for a turn.
func (c *caller) run(ctx context.Context, turn time.Duration) error {
	ctx = context.WithoutCancel(ctx) // as of callers whom nobody cancels
	var decided atomic.Int64
	var fault atomic.Pointer[error]
	began := time.Now()
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			var own, passed int64
			for time.Since(began) < turn {
				ok, err := c.allow(ctx)
				if err != nil {
					fault.Store(new(err))
					return
				}
				if own++; ok {
					passed++
				}
				if own%64 == 0 { // as callers do who have anything else to do
					runtime.Gosched()
				}
			}
			decided.Add(own)
			c.passed.Add(passed)
		})
	}
	calling.Wait()
	c.rates = append(c.rates, float64(decided.Load())/time.Since(began).Seconds())
	if err := fault.Load(); err != nil {
		return *err
	}
	return nil
}

// add adds the caller's line, after it has closed and given back what it was
// lent. What is used must be what passed, and what was forgotten.
func (c *caller) add(ctx context.Context, t *table.Table, base *caller) error {
	ratios := make([]float64, len(c.rates))
	for i := range ratios {
		ratios[i] = c.rates[i] / base.rates[i]
	}
	if c != base {
		if err := c.close(); err != nil {
			return err
		}
	}
	used, err := c.used(ctx)
	if err != nil {
		return err
	}
	passed, forgotten := c.passed.Load(), c.forgotten()
	t.Addf("%s\t%.0f\t%.1f x\t%d\t%d\t%d", c.name, median(c.rates), median(ratios), passed, used, forgotten)
	if used != passed+forgotten {
		return fmt.Errorf("%d used, want the %d that passed and the %d forgotten", used, passed, forgotten)
	}
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
