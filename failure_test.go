package shardlimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// silent is a backend that never answers.
func silent(ctx context.Context, _ *scripts.Call) (scripts.Reply, error) {
	<-ctx.Done()
	return scripts.Reply{}, &failover.Error{Class: failover.Unknown, Shard: "10.0.0.1:6379", Err: context.Cause(ctx)}
}

// on returns a Limiter whose backend runs calls as run does.
func on(run func(context.Context, *scripts.Call) (scripts.Reply, error)) *shardlimit.Limiter {
	return shardlimit.NewOnBackend(shardlimit.Backend{Run: run, Stop: func(time.Time) error { return nil }})
}

// failing returns a Limiter whose backend fails with err.
func failing(err error) *shardlimit.Limiter {
	return on(func(context.Context, *scripts.Call) (scripts.Reply, error) { return scripts.Reply{}, err })
}

var errNeverRan = &failover.Error{Class: failover.NeverRan, Err: errors.New("connection refused")}

func TestTimeoutLeavesTheDecisionToTheFailureMode(t *testing.T) {
	for _, tt := range []struct {
		name    string
		config  shardlimit.PolicyConfig
		timeout time.Duration
		allowed bool
	}{
		{"open", shardlimit.PolicyConfig{}, 50 * time.Millisecond, true},
		{"open by name", shardlimit.PolicyConfig{OnFailure: shardlimit.FailOpen()}, 50 * time.Millisecond, true},
		{"closed", shardlimit.PolicyConfig{OnFailure: shardlimit.FailClosed()}, 50 * time.Millisecond, false},
		{"a timeout of its own", shardlimit.PolicyConfig{Timeout: time.Second}, time.Second, true},
		{
			"closed, a timeout of its own",
			shardlimit.PolicyConfig{Timeout: time.Second, OnFailure: shardlimit.FailClosed()},
			time.Second, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.config.Name, tt.config.Limits = "api", []shardlimit.Limit{shardlimit.PerSecond(10)}
				p := shardlimit.MustPolicy(tt.config)
				began := time.Now()
				r := result(t)(on(silent).AllowN(t.Context(), p, "a", 3))
				if waited := time.Since(began); waited != tt.timeout {
					t.Errorf("AllowN waited %v, want %v", waited, tt.timeout)
				}
				down, ok := errors.AsType[*shardlimit.UnavailableError](r.Failure)
				if !ok || !down.Unknown || down.Shard != "10.0.0.1:6379" || !errors.Is(down, context.DeadlineExceeded) {
					t.Errorf("Failure = %#v, want the shard, and an unknown outcome for lack of time", r.Failure)
				}
				want := shardlimit.Result{Limit: p.Limits()[0], Source: shardlimit.FromFallback, Failure: r.Failure}
				if tt.allowed {
					want.Allowed, want.Granted = true, 3
				} else {
					want.RetryAfter = tt.timeout
				}
				if r != want {
					t.Errorf("AllowN(3) = %+v, want %+v", r, want)
				}
			})
		})
	}
}

func TestFailureModeGrantsWhatWasAskedFor(t *testing.T) {
	l := failing(errNeverRan)
	p := policy(t, shardlimit.Per(5, long))
	ctx := t.Context()
	for _, tt := range []struct {
		name    string
		result  shardlimit.Result
		granted int64
	}{
		{"AllowN(3)", result(t)(l.AllowN(ctx, p, "a", 3)), 3},
		{"AllowAtMost(3)", result(t)(l.AllowAtMost(ctx, p, "a", 3)), 3},
		{"AllowAtMost(9)", result(t)(l.AllowAtMost(ctx, p, "a", 9)), 5},
		{"Charge(9)", result(t)(l.Charge(ctx, p, "a", 9)), 9},
		{"Peek", result(t)(l.Peek(ctx, p, "a")), 0},
	} {
		r := tt.result
		if !r.Allowed || r.Granted != tt.granted || r.Failure == nil {
			t.Errorf("%s = %+v, want it allowed with %d granted", tt.name, r, tt.granted)
		}
		if err := l.Refund(ctx, r); err != nil { // Redis has charged nothing
			t.Errorf("%s: Refund: %v", tt.name, err)
		}
	}
	if down, ok := errors.AsType[*shardlimit.UnavailableError](l.Reset(ctx, p, "a")); !ok || down.Unknown {
		t.Errorf("Reset: error %v, want a shard that is unavailable", down)
	}
}

func TestCallerWhoGivesUpIsNoFailure(t *testing.T) {
	p := policy(t, shardlimit.PerSecond(10))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if r, err := on(silent).Allow(ctx, p, "a"); !errors.Is(err, context.DeadlineExceeded) || r != (shardlimit.Result{}) {
			t.Errorf("Allow past the caller's deadline = %+v, %v; want DeadlineExceeded", r, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if r, err := on(silent).Allow(ctx, p, "a"); !errors.Is(err, context.Canceled) || r != (shardlimit.Result{}) {
			t.Errorf("Allow of a caller who cancels = %+v, %v; want Canceled", r, err)
		}
	})
}

// A socket that heeds the caller's deadline may notice it before the context.
func TestDeadlineNoticedEarlyIsTheCallers(t *testing.T) {
	late := failing(&failover.Error{Class: failover.Unknown, Err: errors.New("i/o timeout")})
	ctx := unnoticed{t.Context(), time.Now()}
	r, err := late.Allow(ctx, policy(t, shardlimit.PerSecond(10)), "a")
	if !errors.Is(err, context.DeadlineExceeded) || r != (shardlimit.Result{}) {
		t.Errorf("Allow = %+v, %v; want DeadlineExceeded", r, err)
	}
}

// unnoticed is a context that has not noticed its own deadline.
type unnoticed struct {
	context.Context
	deadline time.Time
}

func (u unnoticed) Deadline() (time.Time, bool) { return u.deadline, true }

func TestConfigurationFaultIsAnErrorInEveryMode(t *testing.T) {
	cause := &failover.Error{Class: failover.Configuration, Err: errors.New("NOPERM no permission")}
	for _, mode := range []shardlimit.FailureMode{shardlimit.FailOpen(), shardlimit.FailClosed()} {
		p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(10)}, OnFailure: mode,
		})
		r, err := failing(cause).Allow(t.Context(), p, "a")
		want := "shardlimit: configuration: NOPERM no permission"
		if r != (shardlimit.Result{}) || err == nil || err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("fail %v: Allow = %+v, %v; want the error %q", mode, r, err, want)
		}
	}
}

func TestRefundGoesAgainOnlyIfItNeverRan(t *testing.T) {
	failed := func(class failover.Class, cause error) error { return &failover.Error{Class: class, Err: cause} }
	refused := errors.New("refused")
	for _, tt := range []struct {
		name    string
		err     error
		cancels bool // the caller gives up meanwhile
		sent    int
	}{
		{"never ran", failed(failover.NeverRan, refused), false, 2},
		{"never ran, and the caller gave up", failed(failover.NeverRan, context.Canceled), true, 2},
		{"the backend saw the caller give up", context.Canceled, true, 2},
		{"no permission", failed(failover.Configuration, refused), false, 2},
		{"unknown", failed(failover.Unknown, refused), false, 1},
		{"unknown, and the caller gave up", failed(failover.Unknown, context.Canceled), true, 1},
		{"an odd reply", failed(failover.Configuration, &scripts.ReplyError{Script: "give"}), false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sent := 0
			l := on(func(_ context.Context, call *scripts.Call) (scripts.Reply, error) {
				if call.Op != scripts.Give {
					return scripts.NewReply(1, 1, rule.State{}), nil
				}
				sent++
				if tt.cancels {
					cancel()
				}
				return scripts.Reply{}, tt.err
			})
			r := allow(t, l, policy(t, shardlimit.PerSecond(10)), "a")
			if err := l.Refund(ctx, r); err == nil || tt.cancels && !errors.Is(err, context.Canceled) {
				t.Errorf("the first Refund: error %v", err)
			}
			if err := l.Refund(t.Context(), r); (err == nil) != (tt.sent == 1) {
				t.Errorf("the second Refund: error %v", err)
			}
			if sent != tt.sent {
				t.Errorf("sent %d times, want %d", sent, tt.sent)
			}
		})
	}
}

func TestCloseHandsOnTheBackendsError(t *testing.T) {
	stopped, calls := errors.New("stopped badly"), 0
	l := shardlimit.NewOnBackend(shardlimit.Backend{Stop: func(time.Time) error { calls++; return stopped }})
	for range 2 {
		if err := l.Close(); !errors.Is(err, stopped) {
			t.Errorf("Close: error %v, want the backend's", err)
		}
	}
	if calls != 1 {
		t.Errorf("the backend was closed %d times", calls)
	}
}

// What hangs has a second in all, whatever part of the Limiter waits for it.
func TestCloseTakesASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		hangs := make(chan struct{})
		l := shardlimit.NewOnBackend(shardlimit.Backend{
			Run: func(context.Context, *scripts.Call) (scripts.Reply, error) {
				<-hangs
				return scripts.Reply{}, &failover.Error{Class: failover.NeverRan, Err: errors.New("client is closed")}
			},
			Stop: func(deadline time.Time) error {
				close(hangs)
				if got := deadline.Sub(began); got != time.Second {
					t.Errorf("the backend may take until %v after Close began, want 1 s", got)
				}
				return nil
			},
		})
		go func() {
			_, _ = l.AllowAll(t.Context(), shardlimit.Request{Policy: policy(t, shardlimit.PerSecond(10)), Subject: "a"})
		}()
		synctest.Wait()
		if err := l.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: error %v, want that it was too late", err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("Close took %v, want 1 s", got)
		}
		synctest.Wait()
	})
}

func TestCallThatClosingBreaksIsClosed(t *testing.T) {
	var l *shardlimit.Limiter
	l = on(func(context.Context, *scripts.Call) (scripts.Reply, error) {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		return scripts.Reply{}, &failover.Error{Class: failover.NeverRan, Err: errors.New("client is closed")}
	})
	if _, err := l.Allow(t.Context(), policy(t, shardlimit.PerSecond(10)), "a"); !errors.Is(err, shardlimit.ErrClosed) {
		t.Errorf("Allow: error %v, want ErrClosed", err)
	}
}
