package shardlimit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// waited returns how long a wait took, and its error.
func waited(wait func() error) (time.Duration, error) {
	began := time.Now()
	err := wait()
	return time.Since(began), err
}

// Each wakes no sooner than when it would pass, and not much later.
func TestWaitPassesAfterRetryAfter(t *testing.T) {
	for name, limits := range kinds(5, 10*time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := local(t, shardlimit.Config{}), policy(t, limits...)
				if took, err := waited(func() error { return l.WaitN(t.Context(), p, "a", 5) }); took != 0 || err != nil {
					t.Errorf("WaitN(5) of 5 took %v, %v; want no time", took, err)
				}
				least := result(t)(l.Peek(t.Context(), p, "a")).RetryAfter
				took, err := waited(func() error { return l.Wait(t.Context(), p, "a") })
				if err != nil || took < least || took > least+least/8 {
					t.Errorf("Wait took %v, %v; want %v to %v", took, err, least, least+least/8)
				}
			})
		})
	}
}

func TestWaitOfWhatNeverPassesFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := local(t, shardlimit.Config{}), policy(t, shardlimit.PerSecond(5))
		for _, cost := range []int64{0, 6} {
			if took, err := waited(func() error { return l.WaitN(t.Context(), p, "a", cost) }); took != 0 || !isCost(err) {
				t.Errorf("WaitN(%d) took %v: error %v, want a CostError at once", cost, took, err)
			}
		}
	})
}

func TestWaitBeyondTheDeadlineFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := local(t, shardlimit.Config{}), policy(t, shardlimit.Per(1, 10*time.Second))
		allow(t, l, p, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		took, err := waited(func() error { return l.Wait(ctx, p, "a") })
		d, ok := errors.AsType[*shardlimit.DeadlineError](err)
		if took != 0 || !ok || d.RetryAfter != 10*time.Second || d.Limit != p.Limits()[0] || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait took %v: error %v, want a DeadlineError of 10 s at once", took, err)
		}
		if want := "shardlimit: 1/10s would pass in 10s, after the context's deadline"; err.Error() != want {
			t.Errorf("it reads %q, want %q", err, want)
		}
		inTime, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		if err := l.Wait(inTime, p, "a"); err != nil { // chance must not make it late
			t.Errorf("Wait in time: %v", err)
		}
	})
}

func TestWaitEndsWithItsContextAndItsLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := local(t, shardlimit.Config{}), policy(t, shardlimit.PerHour(1))
		allow(t, l, p, "a")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if took, err := waited(func() error { return l.Wait(ctx, p, "a") }); took != time.Second || !errors.Is(err, context.Canceled) {
			t.Errorf("Wait took %v, %v; want Canceled after 1 s", took, err)
		}
		time.AfterFunc(time.Second, func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		took, err := waited(func() error { return l.Wait(t.Context(), p, "a") })
		if took != time.Second || !errors.Is(err, shardlimit.ErrClosed) {
			t.Errorf("Wait took %v, %v; want ErrClosed after 1 s", took, err)
		}
	})
}

func TestThoseWhoWaitTogetherWakeApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := local(t, shardlimit.Config{}), policy(t, shardlimit.PerMinute(10).WithAlgorithm(shardlimit.FixedWindow))
		began := time.Now()
		wait := began.Truncate(time.Minute).Add(time.Minute).Sub(began)
		if err := l.WaitN(t.Context(), p, "a", 10); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		woken := map[time.Duration]bool{}
		atOnce(10, func() {
			if err := l.Wait(t.Context(), p, "a"); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			woken[time.Since(began)] = true
		})
		if len(woken) < 9 {
			t.Errorf("10 woke at %d moments", len(woken))
		}
		for at := range woken {
			if at < wait || at > wait+time.Second {
				t.Errorf("one woke after %v, want %v to 1 s more", at, wait)
			}
		}
	})
}

// A hundred who wait for ten a second all pass, at that rate.
func TestAllWhoWaitPassAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := local(t, shardlimit.Config{}), policy(t, shardlimit.PerSecond(10))
		began := time.Now()
		atOnce(100, func() {
			if err := l.Wait(t.Context(), p, "a"); err != nil {
				t.Error(err)
			}
		})
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("100 passed in %v, want 9 s and little more", took)
		}
	})
}

// asks notes when a backend that can't answer was asked, up to a given moment.
type asks struct {
	mu sync.Mutex
	at []time.Time
}

func (a *asks) run(until time.Time) func(context.Context, *scripts.Call) (scripts.Reply, error) {
	return func(_ context.Context, c *scripts.Call) (scripts.Reply, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.at = append(a.at, time.Now())
		if time.Now().Before(until) {
			return scripts.Reply{}, errNeverRan
		}
		return scripts.NewReply(1, c.Count, rule.State{}), nil
	}
}

func TestWaitOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asks
		l := on(a.run(time.Now().Add(time.Minute)))
		p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "closed", Limits: []shardlimit.Limit{shardlimit.PerSecond(5)}, OnFailure: shardlimit.FailClosed(),
		})
		took, err := waited(func() error { return l.Wait(t.Context(), p, "a") })
		if err != nil || took < time.Minute || took > time.Minute+1200*time.Millisecond {
			t.Errorf("Wait took %v, %v; want 1 minute and little more", took, err)
		}
		least := 50 * time.Millisecond // twice as long each time, up to 1 s
		for i := range a.at[1:] {
			pause := a.at[i+1].Sub(a.at[i])
			if pause < least || pause > least+least/8 {
				t.Errorf("pause %d: %v, want %v to an eighth more", i, pause, least)
			}
			least = min(2*least, time.Second)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		took, err = waited(func() error { return failing(errNeverRan).Wait(ctx, p, "a") })
		if took != 10*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait took %v, %v; want the context's end", took, err)
		}
	})
}

// Nobody sleeps for the hours that a share may be used up, as Redis may be back.
func TestWaitOnAShareAsksForRedisToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asks
		l := on(a.run(time.Now().Add(time.Minute)))
		p := failsLocal(0.5, shardlimit.PerHour(2))
		for range 2 {
			if err := l.Wait(t.Context(), p, "a"); err != nil {
				t.Error(err)
			}
		}
		if took := a.at[len(a.at)-1].Sub(a.at[0]); took < time.Minute {
			t.Errorf("the second passed after %v, want 1 minute", took)
		}
		for i := range a.at[1:] {
			if pause := a.at[i+1].Sub(a.at[i]); pause > time.Second+time.Second/8 {
				t.Errorf("pause %d: %v, want at most 1 s and an eighth", i, pause)
			}
		}
	})
}

func TestWaitOnACluster(t *testing.T) {
	l := newLimiter(t, redistest.Shared(t))
	for name, limits := range kinds(5, 500*time.Millisecond) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy(t, limits...)
			began := time.Now()
			atOnce(15, func() {
				if err := l.Wait(t.Context(), p, name); err != nil {
					t.Error(err)
				}
			})
			// At most ten pass about an edge of two windows, and the burst and
			// five in the first half second.
			if took := time.Since(began); took < 250*time.Millisecond {
				t.Errorf("15 passed in %v", took)
			}
			if r := result(t)(l.Peek(t.Context(), p, name)); r.Source != shardlimit.FromRedis {
				t.Errorf("Peek = %+v, want it from Redis", r)
			}
		})
	}
}
