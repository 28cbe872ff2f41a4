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
	// Batch bounds what is sent together, and what waits.
	Batch Batch
	// Gate says which shards calls go to; nil: to all of them.
	Gate Gate
	// Hooks are told of what is done.
	Hooks Hooks
}

// Batch bounds what a Client does for each primary. Zero values are good
// defaults.
type Batch struct {
	Calls    int // most that go out as one pipeline; 0 means 128
	InFlight int // most pipelines under way at once; 0 means 2
	Queue    int // most calls that wait for a pipeline; 0 means 8192
}

// filled returns o with its defaults in place.
func (o Options) filled() Options {
	o.Timeout = positive(o.Timeout, 50*time.Millisecond)
	o.Batch.Calls = positive(o.Batch.Calls, 128)
	o.Batch.InFlight = positive(o.Batch.InFlight, 2)
	o.Batch.Queue = positive(o.Batch.Queue, 8192)
	if o.Gate == nil {
		o.Gate = noGate{}
	}
	return o
}

// positive returns value, or instead of none or a negative one the default.
func positive[T int | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// Client takes calls to a Redis Cluster, or to a single server, which then is
// the one shard. It is safe for concurrent use.
//
// It has goroutines only for primaries that are asked, at most Batch.InFlight
// for each; they end soon after the last call.
type Client struct {
	opts    Options
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil if there is a single server
	single  *redis.Client        // nil if there is a cluster
	owned   bool
	origin  *origin

	shards    *shards
	strays    *shard // of commands that no known node is for
	discovery discovery
	topology  atomic.Pointer[[]string] // as Reload last learnt

	closed atomic.Bool
	life   context.Context
	end    context.CancelFunc
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
// Calls go to the nodes of a *redis.ClusterClient one by one, in pipelines: of
// its hooks, those see them that its OnNewNode adds to each node.
//
// A call that waits for nobody else is a little faster where a deadline
// interrupts rdb's sockets: see [redis.ClusterOptions] for
// ContextTimeoutEnabled. Its caller is held no longer for the want of it, but
// where the server hangs, a pipeline is, by rdb's own timeouts.
func New(rdb redis.UniversalClient, opts Options) (*Client, error) {
	cluster, _ := rdb.(*redis.ClusterClient)
	single, _ := rdb.(*redis.Client)
	switch {
	case cluster != nil || single != nil:
		return newClient(rdb, cluster, single, opts), nil
	case rdb == (*redis.ClusterClient)(nil) || rdb == (*redis.Client)(nil):
		return nil, &ClientError{Client: fmt.Sprintf("nil %T", rdb)}
	default:
		return nil, &ClientError{Client: fmt.Sprintf("%T", rdb)}
	}
}

// Open returns a Client of the cluster that opts describe, as [Tune] completes
// them. It owns its connections: Close closes them.
func Open(opts *redis.ClusterOptions, o Options) *Client {
	rdb := redis.NewClusterClient(Tune(opts))
	c := newClient(rdb, rdb, nil, o)
	c.owned = true
	return c
}

func newClient(rdb redis.UniversalClient, cluster *redis.ClusterClient, single *redis.Client, opts Options) *Client {
	c := &Client{opts: opts.filled(), rdb: rdb, cluster: cluster, single: single, origin: newOrigin()}
	c.life, c.end = context.WithCancel(context.Background())
	c.shards = &shards{batch: c.opts.Batch, hooks: &c.opts.Hooks, local: c.origin.now, life: c.life}
	c.strays = &shard{batch: c.opts.Batch, life: c.life, elsewhere: c.throughCluster}
	if cluster != nil {
		known := c.shards
		cluster.OnNewNode(func(node *redis.Client) { known.add(node) })
	}
	return c
}

// throughCluster sends each command through the cluster's client, which follows
// redirects to nodes that are not known here. It makes them known.
func (c *Client) throughCluster(ctx context.Context, commands []*command) error {
	for _, cmd := range commands {
		cmd.reroute(ctx)
		_ = c.cluster.Process(ctx, cmd) // notes its error in cmd
	}
	return nil
}

// Close is CloseBy in 1 s.
func (c *Client) Close() error { return c.CloseBy(time.Now().Add(time.Second)) }

// CloseBy refuses calls from now on, and waits until the deadline for those under
// way. What still waits then is refused too. It closes the connections if the
// Client owns them.
func (c *Client) CloseBy(deadline time.Time) error {
	c.closed.Store(true)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	open := append(c.shards.close(), c.strays)
	var idle []<-chan struct{}
	for _, s := range open {
		idle = append(idle, s.close())
	}
	if !all(idle, timer.C) {
		for _, s := range open {
			s.drop()
		}
	}
	c.end()
	if !c.owned {
		return nil
	}
	return c.rdb.Close()
}

// all waits for every one of chans, and reports false if over comes before.
func all(chans []<-chan struct{}, over <-chan time.Time) bool {
	for _, c := range chans {
		select {
		case <-c:
		case <-over:
			return false
		}
	}
	return true
}

// primary returns the shard that serves key, as far as is known. The first call
// of a cluster finds out who serves what.
func (c *Client) primary(ctx context.Context, deadline time.Time, key string) (*shard, error) {
	if c.cluster == nil {
		return c.shards.of(c.single), nil
	}
	if err := c.discover(ctx, deadline, key); err != nil {
		return nil, err
	}
	node, err := c.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.shards.of(node), nil
}

// reload makes the client ask anew who serves what, in the background and at
// most every 200 ms. By itself it does so in a few cases only, and never for a
// node's pipeline.
func (c *Client) reload() {
	if c.cluster != nil {
		c.opts.Hooks.reloading()
		c.cluster.ReloadState(c.life)
	}
}
