package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// patience is how long anything that a cluster should reach by itself is
// waited for; on a machine at rest it takes 3 s at most.
const patience = 90 * time.Second

// poll asks until ready returns nil. When ctx or patience ends first, the
// error tells what was waited for and what ready said last.
func poll(ctx context.Context, what string, ready func(context.Context) error) error {
	return pollEvery(ctx, 20*time.Millisecond, what, ready)
}

// pollEvery is poll for what should be noticed as soon as that.
func pollEvery(ctx context.Context, interval time.Duration, what string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil || errors.As(err, new(finalError)) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; at last: %w", what, ctx.Err(), err)
		}
	}
}

// finalError is an error that waiting won't cure.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Pause waits for d, or returns ctx's error when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// each calls f for every node at once and joins the errors, each with its
// node's address.
func each(nodes []*Node, f func(*Node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			if err := f(n); err != nil {
				errs[i] = fmt.Errorf("%s: %w", n.Addr(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
