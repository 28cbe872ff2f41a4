package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// many is a plan that grants whatever a test asks for, and counts it.
var many = scripts.NewPlan(rule.Limit{Algorithm: rule.TokenBucket, Rate: 1, Period: year, Burst: 1_000_000})

// throughProxy returns a Client that reaches the cluster's nodes through
// proxies, and the proxy of the primary that serves key, where many's script is
// known.
func throughProxy(t *testing.T, key string) (*Client, *relay.Proxy) {
	t.Helper()
	servers := redistest.Shared(t)
	proxies := redistest.NewProxies(t, servers)
	c := newTestClient(t, servers, func(o *redis.ClusterOptions) { o.Dialer = proxies.Dial })
	do(t, c, take(many, key))
	do(t, c, &scripts.Call{Plan: many, Op: scripts.Reset, Key: key})
	node, _ := owner(t, servers, int(keys.Slot(key)))
	return c, proxies[node.Addr()]
}

// drops are the ways in which a reply is lost.
var drops = map[string]relay.Drop{"close": relay.ThenClose, "reset": relay.ThenReset}

func TestALostReplyIsNeverSentAgain(t *testing.T) {
	for name, how := range drops {
		t.Run(name, func(t *testing.T) {
			key := tagged(t)
			c, proxy := throughProxy(t, key)
			const calls = 500
			proxy.DropReplies(calls, how, relay.Commands("evalsha"))
			for range calls {
				_ = wantError(t.Context(), t, c, take(many, key), failover.Unknown)
			}
			if proxy.Dropped() != calls {
				t.Errorf("%d calls, %d replies dropped; want all", calls, proxy.Dropped())
			}
			if got := used(t, c, many, key); got != calls {
				t.Errorf("%d units charged, want %d: one a call", got, calls)
			}
		})
	}
}

// TestALostBatchChargesEachCallAtMostOnce loses one reply of a batch: what is
// answered before it stays answered, and the rest may have run or not.
func TestALostBatchChargesEachCallAtMostOnce(t *testing.T) {
	for name, how := range drops {
		t.Run(name, func(t *testing.T) {
			tag := tagged(t)
			c, proxy := throughProxy(t, tag)
			const calls, callers, each = 4096, 64, 16
			var sent atomic.Int64
			proxy.DropReplies(calls/each, how, func(command []string) bool {
				return command[0] == "evalsha" && sent.Add(1)%each == 0
			})
			results := make([]error, calls) // of a key each
			var calling sync.WaitGroup
			for caller := range callers {
				calling.Go(func() {
					for i := caller; i < calls; i += callers {
						_, results[i] = c.Do(t.Context(), take(many, keyOf(tag, i)))
					}
				})
			}
			calling.Wait()
			proxy.DropReplies(0, 0, nil)

			answered, unknown := 0, 0
			for i, err := range results {
				got := used(t, c, many, keyOf(tag, i))
				f, failed := errors.AsType[*failover.Error](err)
				switch {
				case err == nil && got == 1:
					answered++
				case failed && f.Class == failover.Unknown && got <= 1:
					unknown++
				default:
					t.Errorf("call %d: %v, %d units charged", i, err, got)
				}
			}
			t.Logf("%d answered, %d unknown, %d connections lost", answered, unknown, proxy.Dropped())
			if answered == 0 || unknown < proxy.Dropped() || proxy.Dropped() == 0 {
				t.Errorf("%d answered, %d unknown, %d replies dropped; want some of each", answered, unknown, proxy.Dropped())
			}
		})
	}
}

func keyOf(tag string, i int) string { return fmt.Sprintf("%s:%d", tag, i) }

// TestTheClientAloneWouldChargeAgain shows that the test above tests something:
// the same command without NoRetry runs more than once.
func TestTheClientAloneWouldChargeAgain(t *testing.T) {
	key := tagged(t)
	c, proxy := throughProxy(t, key)
	proxy.DropReplies(2, relay.ThenClose, relay.Commands("evalsha"))

	cmd := redis.NewStringCmd(t.Context(), newCommand(take(many, key), key, false).args...)
	cmd.SetFirstKeyPos(firstKey)
	if err := c.rdb.Process(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	if got := used(t, c, many, key); got != 3 {
		t.Errorf("one command without NoRetry, two replies lost: %d units charged, want 3", got)
	}
}

// wantLate makes a call whose deadline is too early for its answer, and that
// must end with this class. Where it ends before it was sent, for the machine is
// slow, it has more time the next time.
func wantLate(t testing.TB, c *Client, call *scripts.Call, want failover.Class) {
	t.Helper()
	for timeout := 500 * time.Millisecond; ; timeout *= 2 {
		_, err := c.DoUntil(t.Context(), time.Now().Add(timeout), call)
		f, ok := errors.AsType[*failover.Error](err)
		switch {
		case !ok || !isLate(f):
			t.Fatalf("DoUntil = %v, want that it is late", err)
		case f.Class == want:
			return
		case f.Class != failover.NeverRan || timeout > patient:
			t.Fatalf("DoUntil = %v, want an error of class %q", f, want)
		}
	}
}

func TestALateReplyIsUnknownAndAHungHandshakeNeverRan(t *testing.T) {
	key := tagged(t)
	c, proxy := throughProxy(t, key)
	proxy.DropReplies(1, relay.ThenSilence, relay.Commands("evalsha"))
	wantLate(t, c, take(many, key), failover.Unknown)
	if got := used(t, c, many, key); got != 1 {
		t.Errorf("%d units charged, want 1", got)
	}

	// Nothing answers on a new connection. The client's error is the same, but
	// it comes from the handshake.
	proxy.Reset()
	proxy.DropReplies(1000, relay.ThenSilence, relay.Commands("hello"))
	wantLate(t, c, take(many, key), failover.NeverRan)
	proxy.DropReplies(0, 0, nil)
	if got := used(t, c, many, key); got != 1 {
		t.Errorf("%d units charged, want 1", got)
	}
}
