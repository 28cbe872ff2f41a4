package shardlimit_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestAFullQueueIsUnavailableAtOnce has more calls under way than there is room
// for, at a server that answers none of them.
func TestAFullQueueIsUnavailableAtOnce(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	// Deadlines don't bind: no call goes alone.
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: -1}))
	l := newOn(t, rdb, shardlimit.Config{
		Timeout: time.Minute,
		Batch:   shardlimit.BatchConfig{Calls: 1, InFlight: 1, Queue: 1},
	})
	p := policy(t, shardlimit.Per(5, long))
	warm(t, l, p)
	if err := server.Hang(t.Context()); err != nil {
		t.Fatal(err)
	}
	const callers = 3 // one is sent, one waits
	results := make(chan shardlimit.Result, callers)
	for i := range callers { // each for a subject of its own, so that none goes with another
		go func() { results <- allow(t, l, p, "user:"+strconv.Itoa(i)) }()
	}
	down, ok := errors.AsType[*shardlimit.UnavailableError]((<-results).Failure)
	if !ok || !errors.Is(down, shardlimit.ErrQueueFull) || down.Unknown {
		t.Errorf("while others wait: Failure %v, want %v", down, shardlimit.ErrQueueFull)
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range callers - 1 {
		if r := <-results; r.Source != shardlimit.FromRedis && !errors.Is(r.Failure, shardlimit.ErrQueueFull) {
			t.Errorf("once the server goes on: %+v, want an answer", r)
		}
	}
	for _, s := range l.Inspect().Shards {
		if s.Fallback {
			t.Errorf("a full queue was put down to the shard: %+v", s)
		}
	}
}
