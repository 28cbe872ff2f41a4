package limitertest_test

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/limitertest"
)

func TestRunByARealClock(t *testing.T) {
	limitertest.Run(t, func(t *testing.T) (limitertest.Limiter, func(time.Time)) {
		l, err := shardlimit.NewLocal(shardlimit.Config{})
		closing.Opened(t, l, err)
		return l, nil
	})
}
