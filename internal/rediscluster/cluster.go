// Package rediscluster runs real Redis Clusters on this machine's loopback
// addresses, for tests, demonstrations and diagnosis: it forms one in 2 to 3 s,
// and kills, stops, cuts off and adds nodes, moves slots and flushes scripts on
// demand.
//
// It starts redis-server or valkey-server processes of any version from 6.0
// and stops no others. Clusters don't get in each other's way, whichever
// program runs them. Package containers runs the servers in containers instead:
// whatever else is said here holds there too.
package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Cluster is a running cluster. Its methods are safe for concurrent use, except
// that two moves of one slot at once get in each other's way. Where a method
// waits for the cluster, it does so until ctx ends, and for 90 s at most.
type Cluster struct {
	opts     Options
	launcher Launcher
	close    func() error

	mu      sync.Mutex
	nodes   []*Node // in the order in which they came
	removed []*Node
}

// Start starts a cluster and returns once each node knows all the others,
// serves what it should and sees every slot served. The caller closes it; ctx
// bounds the start alone. Where no server is installed, the error is
// [ErrNoServer].
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("rediscluster: options: %w", err)
	}
	l, err := opts.Launch(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("rediscluster: %w", err)
	}
	c := &Cluster{opts: opts, launcher: l}
	c.close = sync.OnceValue(c.closeAll)
	if err := c.form(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("rediscluster: start: %w", err), c.Close())
	}
	return c, nil
}

// Close kills every node, waits for them and removes their data. More calls
// return the same.
func (c *Cluster) Close() error { return c.close() }

func (c *Cluster) closeAll() error {
	var errs []error
	for _, n := range append(c.Nodes(), c.removed...) {
		errs = append(errs, n.client.Close())
	}
	return errors.Join(append(errs, c.launcher.Close())...)
}

// Version returns what the nodes run.
func (c *Cluster) Version() Version { return c.launcher.Version() }

// Nodes returns all nodes, also those that were killed: at first the primaries,
// then their replicas, then whichever were added.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// Node returns the node with this address, as MOVED names it, or nil.
func (c *Cluster) Node(addr string) *Node {
	for _, n := range c.Nodes() {
		if n.Addr() == addr {
			return n
		}
	}
	return nil
}

// Addrs returns the addresses of all nodes, as a cluster client wants them.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// ClientOptions returns the options of a cluster client that reaches this
// cluster, and that a machine which is busy doesn't end. They are the caller's.
func (c *Cluster) ClientOptions() *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:                    c.Addrs(),
		TLSConfig:                c.opts.TLS.Clone(),
		DialTimeout:              2 * time.Second,
		ReadTimeout:              10 * time.Second,
		WriteTimeout:             10 * time.Second,
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Primaries returns the running nodes that are primaries by their own account
// now, in the order of [Cluster.Nodes].
func (c *Cluster) Primaries(ctx context.Context) ([]*Node, error) {
	return c.runningThat(ctx, func(m member) bool { return m.is("master") })
}

// Replicas returns the running nodes that follow the primary now.
func (c *Cluster) Replicas(ctx context.Context, primary *Node) ([]*Node, error) {
	return c.runningThat(ctx, func(m member) bool { return m.primary == primary.id })
}

// Owner returns the node that serves the slot: of the running nodes that say
// they do, the one with the latest configuration epoch.
func (c *Cluster) Owner(ctx context.Context, slot int) (*Node, error) {
	var owner *Node
	var epoch int64
	for _, n := range c.running() {
		m, err := n.self(ctx)
		if err != nil {
			return nil, fmt.Errorf("rediscluster: owner of slot %d: %w", slot, err)
		}
		if m.serves(slot) && (owner == nil || m.epoch > epoch) {
			owner, epoch = n, m.epoch
		}
	}
	if owner == nil {
		return nil, fmt.Errorf("rediscluster: nobody serves slot %d", slot)
	}
	return owner, nil
}

// FlushScripts makes the nodes forget their cached scripts; all running nodes
// if none is named.
func (c *Cluster) FlushScripts(ctx context.Context, nodes ...*Node) error {
	if len(nodes) == 0 {
		nodes = c.running()
	}
	err := each(nodes, func(n *Node) error { return n.client.ScriptFlush(ctx).Err() })
	if err != nil {
		return fmt.Errorf("rediscluster: flush scripts: %w", err)
	}
	return nil
}

// ErrorStats returns how many error replies the running nodes have sent since
// they started, by the error's first word: "MOVED", "ASK", "NOSCRIPT". Redis
// counts them from 6.2 on.
func (c *Cluster) ErrorStats(ctx context.Context) (map[string]int64, error) {
	total := map[string]int64{}
	for _, n := range c.running() {
		info, err := n.client.Info(ctx, "errorstats").Result()
		if err == nil {
			err = addErrorStats(total, info)
		}
		if err != nil {
			return nil, fmt.Errorf("rediscluster: error stats of %s: %w", n.Addr(), err)
		}
	}
	return total, nil
}

// addErrorStats adds up lines like "errorstat_MOVED:count=12".
func addErrorStats(total map[string]int64, info string) error {
	for line := range strings.Lines(info) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "errorstat_")
		if !ok {
			continue
		}
		name, count, _ := strings.Cut(rest, ":count=")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return err
		}
		total[name] += n
	}
	return nil
}

func (c *Cluster) running() []*Node {
	return slices.DeleteFunc(c.Nodes(), func(n *Node) bool { return !n.Running() })
}

func (c *Cluster) runningThat(ctx context.Context, is func(member) bool) ([]*Node, error) {
	var found []*Node
	for _, n := range c.running() {
		m, err := n.self(ctx)
		if err != nil {
			return nil, fmt.Errorf("rediscluster: roles: %w", err)
		}
		if is(m) {
			found = append(found, n)
		}
	}
	return found, nil
}
