package shardlimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// What a process knows to be refused is told as Redis told it: who is refused
// again and again does not hear of a shorter wait.
func TestAKnownDenialTellsTheWholeWait(t *testing.T) {
	l := clustered(t, client(t))
	p := policy(t, shardlimit.PerHour(1))
	allow(t, l, p, "user:42")
	first := allow(t, l, p, "user:42")
	for {
		r := allow(t, l, p, "user:42")
		if r.Allowed || r.RetryAfter > time.Hour || r.RetryAfter < first.RetryAfter-time.Minute {
			t.Fatalf("denied after %+v: %+v, want about the same wait", first, r)
		}
		if r.Source == shardlimit.FromDenial {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := l.Wait(ctx, p, "user:42")
	d, ok := errors.AsType[*shardlimit.DeadlineError](err)
	if !ok || d.RetryAfter < time.Minute {
		t.Errorf("Wait for a minute = %v, want a *DeadlineError of about an hour", err)
	}
}
