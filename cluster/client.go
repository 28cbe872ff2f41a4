package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options says how a Client behaves. Zero values are good defaults.
type Options struct {
	// Timeout bounds a call whose context has no deadline; 0 means 50 ms.
	Timeout time.Duration
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
}

// ClientError reports a client of a kind that calls can't be taken through:
// one that doesn't follow a cluster's slots.
type ClientError struct {
	Client string // its type
}

func (e *ClientError) Error() string {
	return fmt.Sprintf("client is a %s: want a *redis.ClusterClient or a *redis.Client", e.Client)
}

// New returns a Client that sends through rdb, which stays the caller's to
// close. The error, for anything but a *redis.ClusterClient or a *redis.Client,
// is a *ClientError.
//
// Contexts bound a call only as far as rdb heeds them: see
// [redis.ClusterOptions] for ContextTimeoutEnabled, without which a deadline
// doesn't interrupt reading and writing.
func New(rdb redis.UniversalClient, opts Options) (*Client, error) {
	c := newClient(opts)
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		c.cluster, c.rdb = rdb, rdb
	case *redis.Client:
		c.single, c.rdb = rdb, rdb
	default:
		return nil, &ClientError{Client: fmt.Sprintf("%T", rdb)}
	}
	return c, nil
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
