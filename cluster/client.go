package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options says how a Client behaves. Zero values are good defaults.
type Options struct {
	// Timeout bounds a call whose context has no deadline; 0 means 50 ms.
	Timeout time.Duration
	// Gate says which shards calls go to; nil: to all of them.
	Gate Gate
	// Prefix begins the keys that Probe names, as the user's permissions may
	// ask for. It reads and writes none of them.
	Prefix string
}

// defaultTimeout is the Timeout that 0 means.
const defaultTimeout = 50 * time.Millisecond

// Client takes calls to a Redis Cluster, or to a single server, which then is
// the one shard. It is safe for concurrent use.
type Client struct {
	opts    Options
	rdb     redis.UniversalClient // what all commands go through, and so its hooks
	cluster *redis.ClusterClient  // nil if there is a single server
	single  *redis.Client         // nil if there is a cluster
	owned   bool
	clocks  clocks
	shards  atomic.Pointer[[]string] // as Reload last learnt
}

// ClientError reports a client that calls can't be taken through: it is nil, or
// of a kind that doesn't follow a cluster's slots.
type ClientError struct {
	Client string // its type, behind "nil " where it is a nil pointer
}

func (e *ClientError) Error() string {
	return fmt.Sprintf("client is a %s: want a *redis.ClusterClient or a *redis.Client", e.Client)
}

// New returns a Client that sends through rdb, which stays the caller's to
// close. The error, for anything but a *redis.ClusterClient or a *redis.Client
// that isn't nil, is a *ClientError.
//
// Contexts bound a call only as far as rdb heeds them: see
// [redis.ClusterOptions] for ContextTimeoutEnabled, without which a deadline
// doesn't interrupt reading and writing.
func New(rdb redis.UniversalClient, opts Options) (*Client, error) {
	c := newClient(opts)
	c.rdb = rdb
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.single, _ = rdb.(*redis.Client)
	switch {
	case c.cluster != nil || c.single != nil:
		return c, nil
	case rdb == (*redis.ClusterClient)(nil) || rdb == (*redis.Client)(nil):
		return nil, &ClientError{Client: fmt.Sprintf("nil %T", rdb)}
	default:
		return nil, &ClientError{Client: fmt.Sprintf("%T", rdb)}
	}
}

// Open returns a Client of the cluster that opts describe, as [Tune] completes
// them. It owns its connections: Close closes them.
func Open(opts *redis.ClusterOptions, o Options) *Client {
	c := newClient(o)
	c.cluster = redis.NewClusterClient(Tune(opts))
	c.rdb, c.owned = c.cluster, true
	return c
}

func newClient(opts Options) *Client {
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.Gate == nil {
		opts.Gate = noGate{}
	}
	return &Client{opts: opts, clocks: newClocks()}
}

// Close closes the connections if the Client owns them.
func (c *Client) Close() error {
	if !c.owned {
		return nil
	}
	return c.rdb.Close()
}

// primary returns the client of the primary that serves key, as far as is
// known. The first call of a cluster finds out who serves what.
func (c *Client) primary(ctx context.Context, key string) (*redis.Client, error) {
	if c.cluster == nil {
		return c.single, nil
	}
	return c.cluster.MasterForKey(ctx, key)
}

// reload makes the client ask anew who serves what, in the background and at
// most every 200 ms. By itself it does so for MOVED, ASK and READONLY alone.
func (c *Client) reload(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}
