package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// book counts what callers of one key were told.
type book struct {
	granted, unknown, neverRan, other atomic.Int64
}

// ask makes one call of one unit and notes what became of it.
func (b *book) ask(ctx context.Context, t *testing.T, c *Client, call *scripts.Call) {
	reply, err := c.Do(ctx, call)
	f, _ := errors.AsType[*failover.Error](err)
	switch {
	case err == nil:
		b.granted.Add(reply.Granted)
	case f.Class == failover.Unknown:
		b.unknown.Add(1)
	case f.Class == failover.NeverRan:
		b.neverRan.Add(1)
	default:
		if b.other.Add(1) == 1 {
			t.Errorf("Do = %v", err)
		}
	}
}

// missed returns how many calls got no answer yet.
func (b *book) missed() int64 { return b.unknown.Load() + b.neverRan.Load() }

// holds ends the test with an error unless what was charged is what was granted
// and some of the unknown: a call that is said not to have run charged nothing,
// and none was charged twice.
func (b *book) holds(t *testing.T, charged int64) {
	t.Helper()
	granted, unknown := b.granted.Load(), b.unknown.Load()
	t.Logf("%d granted, %d unknown, %d never ran; %d charged", granted, unknown, b.neverRan.Load(), charged)
	if charged < granted || charged > granted+unknown {
		t.Errorf("%d units charged, want %d granted and some of the %d unknown", charged, granted, unknown)
	}
}

// plenty are plans that grant whatever a test asks for: one that a charge
// changes in place, and one that adds to.
var plenty = map[string]*scripts.Plan{
	"token_bucket": many,
	"sliding_log":  scripts.NewPlan(rule.Limit{Algorithm: rule.SlidingLog, Rate: 10_000, Period: year}),
	"fixed_window": scripts.NewPlan(rule.Limit{Algorithm: rule.FixedWindow, Rate: 1e9, Period: year}),
}

// breakage breaks the primary, or the way there, until the callers have noticed.
type breakage func(t *testing.T, node *rediscluster.Node, proxy *relay.Proxy, b *book)

const callersGiveUp = "callers give up"

var breakages = map[string]breakage{
	"connections reset": func(t *testing.T, _ *rediscluster.Node, proxy *relay.Proxy, b *book) {
		before := b.missed()
		until(t, func() bool { proxy.Reset(); return b.missed() > before })
	},
	"replies lost": func(t *testing.T, _ *rediscluster.Node, proxy *relay.Proxy, b *book) {
		before := b.unknown.Load()
		proxy.DropReplies(5, relay.ThenReset, relay.Commands("evalsha", "eval"))
		until(t, func() bool { return b.unknown.Load() >= before+5 })
	},
	"scripts flushed and their replies lost": func(t *testing.T, node *rediscluster.Node, proxy *relay.Proxy, b *book) {
		before := b.unknown.Load()
		run(t, node, "SCRIPT", "FLUSH")
		proxy.DropReplies(1, relay.ThenClose, relay.Commands("eval"))
		until(t, func() bool { run(t, node, "SCRIPT", "FLUSH"); return b.unknown.Load() > before })
	},
	"the primary hangs": func(t *testing.T, node *rediscluster.Node, _ *relay.Proxy, b *book) {
		before := b.missed()
		if err := node.Hang(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return b.missed() > before+16 })
		if err := node.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	},
	"a black hole": func(t *testing.T, _ *rediscluster.Node, proxy *relay.Proxy, b *book) {
		before := b.missed()
		proxy.BlackHole()
		until(t, func() bool { return b.missed() > before+16 })
		proxy.Restore()
	},
	callersGiveUp: func(t *testing.T, _ *rediscluster.Node, _ *relay.Proxy, b *book) {
		before := b.missed()
		until(t, func() bool { return b.missed() > before })
	},
}

// until returns once it's so.
func until(t *testing.T, ready func() bool) {
	t.Helper()
	for !ready() {
		if t.Context().Err() != nil {
			t.Fatal("the test is over")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestWhateverBreaksEachCallIsChargedOnceAtMost keeps eight callers at one key
// while its primary, or the way there, breaks again and again.
func TestWhateverBreaksEachCallIsChargedOnceAtMost(t *testing.T) {
	servers := redistest.Start(t, redistest.Options{Shards: 2})
	for name, happen := range breakages {
		patience := func() time.Duration { return 20 * time.Millisecond }
		if name == callersGiveUp {
			patience = func() time.Duration { return rand.N(2 * time.Millisecond) }
		}
		t.Run(name, func(t *testing.T) {
			for kind, plan := range plenty {
				t.Run(kind, func(t *testing.T) { breakWhileAsked(t, servers, plan, patience, happen) })
			}
		})
	}
}

func breakWhileAsked(t *testing.T, servers *rediscluster.Cluster, plan *scripts.Plan, patience func() time.Duration, happen breakage) {
	t.Helper()
	key := "{" + redistest.Prefix(t) + "}" // the window's key is in its slot
	proxies := redistest.NewProxies(t, servers)
	c := newTestClient(t, servers, func(o *redis.ClusterOptions) {
		o.Dialer = proxies.Dial
		o.MaxRetries, o.PoolSize = 3, 4
	})
	do(t, c, take(plan, key))
	node, _ := owner(t, servers, int(keys.Slot(key)))

	var b book
	b.granted.Add(1)
	var stop atomic.Bool
	var calling sync.WaitGroup
	for range 8 {
		calling.Go(func() {
			for !stop.Load() {
				ctx, cancel := context.WithTimeout(t.Context(), patience())
				b.ask(ctx, t, c, take(plan, key))
				cancel()
			}
		})
	}
	for range 3 {
		happen(t, node, proxies[node.Addr()], &b)
	}
	stop.Store(true)
	calling.Wait()
	proxies[node.Addr()].DropReplies(0, 0, nil)
	settled(t, c, plan, key)
	b.holds(t, used(t, c, plan, key))
}

// settled waits until what was under way when its caller gave up has run: the
// primary runs what a connection brings in order, and each of the pool's has
// either carried a call since or was closed.
func settled(t *testing.T, c *Client, plan *scripts.Plan, key string) {
	t.Helper()
	for last, same := int64(-1), 0; same < 20; {
		now := used(t, c, plan, key)
		if now == last {
			same++
		} else {
			last, same = now, 0
		}
	}
}
