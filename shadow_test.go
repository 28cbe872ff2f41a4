package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/failover"
)

func shadowOf(c shardlimit.PolicyConfig) *shardlimit.Policy {
	c.Name, c.Shadow = "shadow", true
	if c.Limits == nil {
		c.Limits = []shardlimit.Limit{shardlimit.Per(5, long)}
	}
	return shardlimit.MustPolicy(c)
}

func TestShadowAllowsAndReports(t *testing.T) {
	for name, limits := range kinds(5, long) {
		t.Run(name, func(t *testing.T) {
			l, ctx := local(t, shardlimit.Config{Logger: slog.New(slog.DiscardHandler)}), t.Context()
			p := shadowOf(shardlimit.PolicyConfig{Limits: limits})
			if r := result(t)(l.AllowN(ctx, p, "a", 3)); !r.Allowed || r.Granted != 3 || r.Remaining != 2 || r.Shadowed {
				t.Errorf("AllowN(3) = %+v, want it allowed as ever", r)
			}
			denied := result(t)(l.AllowN(ctx, p, "a", 4))
			if !denied.Allowed || denied.Granted != 4 || denied.Remaining != 2 || !denied.Shadowed || denied.RetryAfter == 0 {
				t.Errorf("AllowN(4) = %+v, want it shadowed", denied)
			}
			if err := l.Refund(ctx, denied); err != nil { // nothing was charged
				t.Error(err)
			}
			part := result(t)(l.AllowAtMost(ctx, p, "a", 4))
			if !part.Allowed || part.Granted != 4 || part.Remaining != 0 || !part.Shadowed {
				t.Errorf("AllowAtMost(4) of 2 = %+v, want it shadowed", part)
			}
			if r := result(t)(l.Peek(ctx, p, "a")); !r.Allowed || !r.Shadowed || r.Granted != 0 || r.RetryAfter == 0 {
				t.Errorf("Peek = %+v, want it shadowed", r)
			}
			if err := l.Refund(ctx, part); err != nil {
				t.Error(err)
			}
			if r := result(t)(l.Peek(ctx, p, "a")); r.Shadowed || r.Remaining != 2 {
				t.Errorf("Peek after the refund = %+v, want the 2 that were charged back", r)
			}
			if err := l.Wait(ctx, p, "a"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestShadowAllowsWhereAModeDenies(t *testing.T) {
	for _, mode := range []shardlimit.FailureMode{shardlimit.FailClosed(), shardlimit.FailLocal(0.2)} {
		l, p := failing(errNeverRan), shadowOf(shardlimit.PolicyConfig{OnFailure: mode})
		for range 2 {
			r := allow(t, l, p, "a")
			if !r.Allowed || r.Granted != 1 || r.Failure == nil || r.Source != shardlimit.FromFallback {
				t.Errorf("fail %v: Allow = %+v, want it allowed", mode, r)
			}
		}
		if r := allow(t, l, p, "a"); !r.Shadowed {
			t.Errorf("fail %v: Allow = %+v, want it shadowed", mode, r)
		}
	}
}

// A policy that is being tried out must not break a service because Redis is set
// up wrongly; wrong calls, and those that nobody waits for, stay errors.
func TestShadowOfAnError(t *testing.T) {
	cause := &failover.Error{Class: failover.Configuration, Err: errors.New("NOPERM no permission")}
	p, l, ctx := shadowOf(shardlimit.PolicyConfig{}), failing(cause), t.Context()
	r := allow(t, l, p, "a")
	if !r.Allowed || !r.Shadowed || r.Granted != 1 || !errors.Is(r.Failure, cause) || r.Source != shardlimit.FromFallback {
		t.Errorf("Allow without permission = %+v, want it shadowed", r)
	}
	if _, err := l.AllowN(ctx, p, "a", 9); !isCost(err) {
		t.Errorf("AllowN(9): error %v, want a CostError", err)
	}
	if _, err := l.Allow(ctx, p, ""); !errors.Is(err, shardlimit.ErrNoSubject) {
		t.Errorf("Allow of nobody: error %v, want ErrNoSubject", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.Allow(ended, p, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Allow: error %v, want Canceled", err)
	}
}

func isCost(err error) bool {
	_, ok := errors.AsType[*shardlimit.CostError](err)
	return ok
}

func TestShadowIsCountedToldAndLoggedOnce(t *testing.T) {
	var out logged
	told := 0
	l := local(t, shardlimit.Config{
		Logger: slog.New(slog.NewTextHandler(&out, nil)),
		Observer: shardlimit.Observer{Decided: func(_ context.Context, d shardlimit.Decision) {
			if d.Result.Shadowed {
				told++
			}
		}},
	})
	p := shadowOf(shardlimit.PolicyConfig{})
	for range 8 {
		allow(t, l, p, "a")
	}
	want := shardlimit.Counters{Allowed: 8, Shadowed: 3}
	if diff := cmp.Diff(want, l.Inspect().Counters); diff != "" {
		t.Errorf("Counters (-want +got):\n%s", diff)
	}
	lines := strings.Count(out.buf.String(), "shadow policy would have denied")
	if told != 3 || lines != 1 || !strings.Contains(out.buf.String(), "policy=shadow") {
		t.Errorf("told %d times, logged %q; want 3 times, and one line", told, out.buf.String())
	}
}

// A line is written for as many policies as there is room for, and no more.
func TestShadowLogIsBounded(t *testing.T) {
	const policies, room = 1200, 1000
	log := &logged{}
	l := local(t, shardlimit.Config{Logger: slog.New(slog.NewJSONHandler(log, nil))})
	for range 2 {
		for i := range policies {
			p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
				Name: fmt.Sprintf("shadow-%d", i), Limits: []shardlimit.Limit{shardlimit.Per(1, long)}, Shadow: true,
			})
			for range 2 {
				allow(t, l, p, "a")
			}
		}
	}
	if n := len(log.lines(t)); n != room {
		t.Errorf("%d lines for %d policies, want %d", n, policies, room)
	}
}
