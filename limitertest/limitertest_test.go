package limitertest_test

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/limitertest"
)

func TestRunByARealClock(t *testing.T) {
	limitertest.Run(t, func(t *testing.T) (limitertest.Limiter, func(time.Time)) {
		l, err := shardlimit.NewLocal(shardlimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l, nil
	})
}
