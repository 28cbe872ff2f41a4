package shardlimit_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// stampede asks at once, from a goroutine each, and returns what passed. Redis must
// decide about each, or this process by what Redis said.
func stampede(t *testing.T, callers int, ask func(i int) (shardlimit.Result, error)) (passed int64) {
	t.Helper()
	var granted atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range callers {
		all.Go(func() {
			<-start
			r, err := ask(i)
			if err != nil || r.Failure != nil {
				t.Errorf("caller %d: %+v, %v; want a decision by Redis", i, r, err)
			}
			granted.Add(r.Granted)
		})
	}
	close(start)
	all.Wait()
	return granted.Load()
}

// No number of callers makes a policy that fails open let more through.
func TestAStampedeOnOneSubjectPassesTheLimit(t *testing.T) {
	l := clustered(t, client(t))
	p := policy(t, shardlimit.Per(100, long))
	passed := stampede(t, 10_000, func(int) (shardlimit.Result, error) { return l.Allow(t.Context(), p, "hot") })
	if passed != 100 {
		t.Errorf("%d passed, want 100", passed)
	}
}

// Costs of all sizes on one subject don't wait for each other in a line.
func TestAStampedeOfManyCostsPassesTheLimit(t *testing.T) {
	l := clustered(t, client(t))
	const costs = 500
	p := policy(t, shardlimit.Per(costs*(costs+1)/2, long))
	passed := stampede(t, 2*costs, func(i int) (shardlimit.Result, error) {
		return l.AllowN(t.Context(), p, "hot", int64(i%costs)+1)
	})
	if most := p.Limits()[0].Rate; passed > most || passed <= most-costs {
		t.Errorf("%d passed, want %d, less than one cost apart", passed, most)
	}
}

// Who waited for a call of others is told what Redis did not do, as they are.
func TestFailuresSayNothingOfFlights(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	l := newOn(t, singleClient(t, server), shardlimit.Config{
		Timeout: 20 * time.Millisecond, Breaker: shardlimit.BreakerConfig{Disabled: true},
	})
	p := policy(t, shardlimit.Per(1_000_000_000, long))
	warm(t, l, p)
	var all, running sync.WaitGroup
	running.Add(16)
	for range 16 {
		all.Go(func() {
			running.Done()
			for failures := 0; failures < 3; {
				r, err := l.Allow(t.Context(), p, "user:42")
				if err != nil {
					t.Error(err)
					return
				}
				if r.Failure == nil {
					continue
				}
				failures++
				if w, waited := errors.AsType[*hotkey.WaitError](r.Failure); waited {
					t.Errorf("on a server that hangs: %v, want nothing of %v", r.Failure, w)
				}
			}
		})
	}
	running.Wait()
	if err := server.Hang(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}
