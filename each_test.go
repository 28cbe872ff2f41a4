package shardlimit_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// More requests than go out at once: each has its outcome, in its place.
func TestAllowEachOfManyKeepsTheirOrder(t *testing.T) {
	p := named("p", shardlimit.Per(10_000, long))
	for name, l := range map[string]*shardlimit.Limiter{
		"memory": local(t, shardlimit.Config{}), "cluster": newLimiter(t, redistest.Shared(t)),
	} {
		const n = 3000
		var reqs []shardlimit.Request
		for i := range n {
			reqs = append(reqs, shardlimit.Request{Policy: p, Subject: strconv.Itoa(i), Cost: int64(i%7) + 1})
		}
		for i, o := range l.AllowEach(t.Context(), reqs...) {
			if cost := int64(i%7) + 1; o.Err != nil || o.Failure != nil || o.Granted != cost || o.Remaining != 10_000-cost {
				t.Fatalf("%s: outcome %d = %+v, want %d granted", name, i, o, cost)
			}
		}
		if c := l.Inspect().Counters; c.Allowed != n {
			t.Errorf("%s: %d counted, want %d", name, c.Allowed, n)
		}
	}
}

// One key asked for again and again by several at once: exactly its limit.
func TestAllowEachIsExact(t *testing.T) {
	l := newLimiter(t, redistest.Shared(t))
	for name, limits := range kinds(100, long) {
		p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: name, Limits: limits})
		var reqs []shardlimit.Request
		for range 40 {
			reqs = append(reqs, ask(p, "a"))
		}
		granted := make(chan int64, 8)
		atOnce(8, func() {
			var n int64
			for _, o := range l.AllowEach(t.Context(), reqs...) {
				if o.Err != nil || o.Failure != nil {
					t.Errorf("%s: %+v", name, o)
				}
				n += o.Granted
			}
			granted <- n
		})
		close(granted)
		var sum int64
		for n := range granted {
			sum += n
		}
		if sum != 100 {
			t.Errorf("%s: %d granted, want 100", name, sum)
		}
	}
}

// Where a shard is down, its own requests are answered by their modes, and the
// others by Redis.
func TestAllowEachWithOneShardDown(t *testing.T) {
	c, node, its, others := oneShard(t)
	l := newOn(t, clientOf(t, c), shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: time.Second})
	policies := append(modes(shardlimit.Per(1000, long)), failsLocal(0.01, shardlimit.Per(1000, long)))
	wantFromRedis(t, l, policies, append(others, its))
	if err := node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	var reqs []shardlimit.Request
	for _, p := range policies {
		reqs = append(reqs, ask(p, its))
		for _, s := range others {
			reqs = append(reqs, ask(p, s))
		}
	}
	for i, o := range l.AllowEach(t.Context(), reqs...) {
		if reqs[i].Subject == its {
			_ = wantByMode(t, reqs[i].Policy, o.Result, node.Addr())
		} else if o.Err != nil || !o.Allowed {
			t.Errorf("%s, %s: %+v, want it allowed", reqs[i].Policy.Name(), reqs[i].Subject, o)
		}
	}
}

func TestAllowEachOfACallerWhoHasGone(t *testing.T) {
	l, p := local(t, shardlimit.Config{}), policy(t, shardlimit.Per(5, long))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range l.AllowEach(ended, ask(p, "a"), ask(p, "b")) {
		if !errors.Is(o.Err, context.Canceled) || o.Granted != 0 {
			t.Errorf("AllowEach = %+v, want Canceled", o)
		}
	}
	wantLeft(t, l, p, "a", 5)
}
