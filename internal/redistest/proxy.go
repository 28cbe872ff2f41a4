package redistest

import (
	"testing"

	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/relay"
)

// NewProxy starts a proxy for the node at the address upstream. It's closed
// when the test ends.
func NewProxy(t testing.TB, upstream string) *relay.Proxy {
	t.Helper()
	p, err := relay.Start(t.Context(), upstream)
	return closing.Opened(t, p, err)
}

// NewProxies starts a proxy for each node that the cluster has now, closed when
// the test ends.
func NewProxies(t testing.TB, c *rediscluster.Cluster) relay.Set {
	t.Helper()
	set, err := relay.StartSet(t.Context(), c.Addrs()...)
	return closing.Opened(t, set, err)
}
