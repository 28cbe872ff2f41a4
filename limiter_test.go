package shardlimit_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/limitertest"
)

func TestMemoryKeepsThePromises(t *testing.T) {
	limitertest.Run(t, newLocal)
}

// newLocal returns a local Limiter under a clock that can be set.
func newLocal(t *testing.T) (limitertest.Limiter, func(time.Time)) {
	t.Helper()
	l := local(t)
	return l, setClock(l)
}

func local(t *testing.T) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// setClock returns a function that sets the time at which l decides.
func setClock(l *shardlimit.Limiter) func(time.Time) {
	var micros atomic.Int64
	l.SetClock(func() testclock.Time { return testclock.At(micros.Load()) })
	return func(now time.Time) { micros.Store(now.UnixMicro()) }
}
