package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestCloseUnderLoad(t *testing.T) {
	servers := redistest.Shared(t)
	noLeaks(t)
	c := Open(servers.ClientOptions(), Options{Timeout: patient})
	const callers = 64
	tag := tagged(t)
	var answered, unknown [callers]int64
	var total atomic.Int64
	var calling sync.WaitGroup
	for caller := range callers {
		calling.Go(func() {
			for {
				_, err := c.Do(context.Background(), take(many, keyOf(tag, caller)))
				f, _ := errors.AsType[*failover.Error](err)
				switch {
				case err == nil:
					answered[caller]++
					total.Add(1)
				case f.Class == failover.Unknown:
					unknown[caller]++
				case f.Class == failover.NeverRan && errors.Is(f, ErrClosed):
					return
				default:
					t.Errorf("Do = %v, want an answer or a class", err)
					return
				}
			}
		})
	}
	eventually(t, "a load", func() bool { return total.Load() > 10*callers })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	calling.Wait()
	other := newTestClient(t, servers, nil)
	for caller := range callers {
		got := used(t, other, many, keyOf(tag, caller))
		if got < answered[caller] || got > answered[caller]+unknown[caller] {
			t.Errorf("%d answered and %d unknown, %d charged", answered[caller], unknown[caller], got)
		}
	}
}

func TestCloseDoesNotWaitForAServerThatHangs(t *testing.T) {
	for name, connect := range connects {
		t.Run(name, func(t *testing.T) {
			server := silent(t)
			c := connect(server, t, single)
			ctx, cancel := context.WithCancel(t.Context())
			g := gather(ctx, t, c, shardOf(t, c))
			g.call(t.Context(), "a")
			g.call(t.Context(), "b")
			eventually(t, "a queue of two", func() bool { return g.shard.waiting() == 2 })
			eventually(t, "a call at the server", func() bool { return server.ran("held") == 1 })
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			cancel() // for the one that was sent, where the client isn't ours to close
			errs := g.results()
			for _, name := range []string{"a", "b"} {
				if f, ok := errors.AsType[*failover.Error](errs[name]); !ok || f.Class != failover.NeverRan || !errors.Is(f, ErrClosed) {
					t.Errorf("%s, which waited: %v, want %v", name, errs[name], ErrClosed)
				}
			}
			if f, ok := errors.AsType[*failover.Error](errs["held"]); !ok || f.Class != failover.Unknown {
				t.Errorf("the call that was sent: %v, want an error of class %q", errs["held"], failover.Unknown)
			}
			if f := wantError(t.Context(), t, c, take(many, "key"), failover.NeverRan); !errors.Is(f, ErrClosed) {
				t.Errorf("Do = %v, want %v", f, ErrClosed)
			}
		})
	}
}
