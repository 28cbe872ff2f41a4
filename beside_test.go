package shardlimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// verbs are the ways to ask for one unit.
func verbs(ctx context.Context, l *shardlimit.Limiter, p *shardlimit.Policy, subject string) map[string]func() (shardlimit.Result, error) {
	return map[string]func() (shardlimit.Result, error){
		"Allow": func() (shardlimit.Result, error) { return l.Allow(ctx, p, subject) },
		"AllowEach": func() (shardlimit.Result, error) {
			o := l.AllowEach(ctx, ask(p, subject))[0]
			return o.Result, o.Err
		},
		"AllowAll": func() (shardlimit.Result, error) {
			all, err := l.AllowAll(ctx, ask(p, subject))
			return append(all, shardlimit.Result{})[0], err
		},
	}
}

// Whichever way a subject is asked for while its units are lent to two processes:
// no more passes than its burst and its rate. AllowAll asks Redis, the others what
// is at hand.
func TestAllVerbsBesideLeases(t *testing.T) {
	const rate, burst = 20_000, 40_000
	for name, parts := range map[string]int{"whole": 0, "in parts": 4} {
		t.Run(name, func(t *testing.T) {
			limiters := together(t, client(t), 2, shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: patient})
			p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
				Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(rate).WithBurst(burst)}, Parts: parts,
			})
			var admitted atomic.Int64
			var met sync.Map
			began := time.Now()
			var all sync.WaitGroup
			for _, l := range limiters {
				for verb, once := range verbs(t.Context(), l, p, "hot") {
					all.Go(func() {
						for admitted.Load() < burst+rate && time.Since(began) < time.Minute {
							r, err := once()
							if err != nil || r.Failure != nil {
								t.Errorf("%s = %+v, %v", verb, r, err)
								return
							}
							admitted.Add(r.Granted)
							met.Store(verb+" "+r.Source.String(), r)
						}
					})
				}
			}
			all.Wait()
			most := burst + int64(rate*time.Since(began).Seconds()) + 1
			if n := admitted.Load(); n < burst+rate || n > most {
				t.Errorf("%d admitted, want %d to %d", n, burst+rate, most)
			}
			for source, want := range map[string]bool{
				"Allow lease": true, "AllowEach lease": true,
				"AllowAll redis": true, "AllowAll lease": false, "AllowAll denial": false,
			} {
				if _, ok := met.Load(source); ok != want {
					t.Errorf("%s: met = %v, want %v", source, ok, want)
				}
			}
			if r, ok := met.Load("AllowEach lease"); ok {
				giveBackToLease(t, r.(shardlimit.Result), limiters)
			}
		})
	}
}

// giveBackToLease has a result of one of the limiters given back, twice: by the
// others it is not.
func giveBackToLease(t *testing.T, r shardlimit.Result, limiters []*shardlimit.Limiter) {
	t.Helper()
	var refused int
	for range 2 {
		for _, l := range limiters {
			switch err := l.Refund(t.Context(), r); {
			case errors.Is(err, shardlimit.ErrOtherLimiter):
				refused++
			case err != nil:
				t.Errorf("Refund of %+v: %v", r, err)
			}
		}
	}
	if refused != 2*(len(limiters)-1) {
		t.Errorf("Refund of %+v was another limiter's %d times", r, refused)
	}
}

// A denial that is known tells the whole wait, and so does Wait.
func TestWaitAfterADenialThatIsKnown(t *testing.T) {
	l, p := newLimiter(t, redistest.Shared(t)), policy(t, shardlimit.PerHour(1))
	denied := allow(t, l, p, "a")
	for denied.Source != shardlimit.FromDenial {
		denied = allow(t, l, p, "a")
	}
	if denied.Allowed || denied.RetryAfter < 30*time.Minute || denied.ResetAfter < 30*time.Minute {
		t.Errorf("Allow = %+v, want a denial for about an hour", denied)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := l.Wait(ctx, p, "a")
	if d, ok := errors.AsType[*shardlimit.DeadlineError](err); !ok || d.RetryAfter < 30*time.Minute {
		t.Errorf("Wait = %v, want a DeadlineError of about an hour", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Wait(ctx, p, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait of 1ms = %v, want DeadlineExceeded", err)
	}
}
