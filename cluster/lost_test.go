package cluster

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// many is a plan that grants whatever a test asks for, and counts it.
var many = scripts.NewPlan(rule.Limit{Algorithm: rule.TokenBucket, Rate: 1, Period: year, Burst: 1_000_000})

// throughProxy returns a Client that reaches the cluster's nodes through
// proxies, and the proxy of the primary that serves key, where many's script is
// known.
func throughProxy(t *testing.T, key string) (*Client, *redistest.Proxy) {
	t.Helper()
	servers := redistest.Shared(t)
	proxies := redistest.NewProxies(t, servers)
	c := newTestClient(t, servers, func(o *redis.ClusterOptions) { o.Dialer = proxies.Dial })
	do(t, c, take(many, key))
	do(t, c, &scripts.Call{Plan: many, Op: scripts.Reset, Key: key})
	node, _ := owner(t, servers, int(keys.Slot(key)))
	return c, proxies[node.Addr()]
}

func TestALostReplyIsNeverSentAgain(t *testing.T) {
	for name, how := range map[string]redistest.Drop{"close": redistest.ThenClose, "reset": redistest.ThenReset} {
		t.Run(name, func(t *testing.T) {
			key := redistest.Prefix(t)
			c, proxy := throughProxy(t, key)
			const calls, callers = 1000, 4
			proxy.DropReplies(calls, how, redistest.Commands("evalsha"))

			var unknown atomic.Int64
			var calling sync.WaitGroup
			for range callers {
				calling.Go(func() {
					for range calls / callers {
						_, err := c.Do(t.Context(), take(many, key))
						if f, ok := errors.AsType[*failover.Error](err); ok && f.Class == failover.Unknown {
							unknown.Add(1)
						} else {
							t.Errorf("Do = %v, want an error of class %q", err, failover.Unknown)
						}
					}
				})
			}
			calling.Wait()

			if unknown.Load() != calls || proxy.Dropped() != calls {
				t.Errorf("%d of %d calls reported unknown, %d replies dropped; want all", unknown.Load(), calls, proxy.Dropped())
			}
			if got := used(t, c, many, key); got != calls {
				t.Errorf("%d units charged, want %d: one a call", got, calls)
			}
		})
	}
}

// TestTheClientAloneWouldChargeAgain shows that the test above tests something:
// the same command without NoRetry runs more than once.
func TestTheClientAloneWouldChargeAgain(t *testing.T) {
	key := redistest.Prefix(t)
	c, proxy := throughProxy(t, key)
	proxy.DropReplies(2, redistest.ThenClose, redistest.Commands("evalsha"))

	cmd := newCommand(t.Context(), "evalsha", take(many, key).Script().SHA, take(many, key), key)
	if err := c.rdb.Process(t.Context(), cmd.StringCmd); err != nil {
		t.Fatal(err)
	}
	if got := used(t, c, many, key); got != 3 {
		t.Errorf("one command without NoRetry, two replies lost: %d units charged, want 3", got)
	}
}

func TestALateReplyIsUnknownAndAHungHandshakeNeverRan(t *testing.T) {
	key := redistest.Prefix(t)
	c, proxy := throughProxy(t, key)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()

	proxy.DropReplies(1, redistest.ThenSilence, redistest.Commands("evalsha"))
	f := wantError(ctx, t, c, take(many, key), failover.Unknown)
	if !errors.Is(f, os.ErrDeadlineExceeded) {
		t.Errorf("Do = %v, want %v", f, os.ErrDeadlineExceeded)
	}
	if got := used(t, c, many, key); got != 1 {
		t.Errorf("%d units charged, want 1", got)
	}

	// Nothing answers on a new connection. The client's error is the same, but
	// it comes from the handshake.
	proxy.Reset()
	proxy.DropReplies(1000, redistest.ThenSilence, redistest.Commands("hello"))
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if f := wantError(ctx, t, c, take(many, key), failover.NeverRan); !errors.Is(f, os.ErrDeadlineExceeded) {
		t.Errorf("Do = %v, want %v", f, os.ErrDeadlineExceeded)
	}
	proxy.DropReplies(0, 0, nil)
	if got := used(t, c, many, key); got != 1 {
		t.Errorf("%d units charged, want 1", got)
	}
}
