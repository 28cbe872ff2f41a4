package rediscluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Node is one server. Its methods are safe for concurrent use.
type Node struct {
	server Server
	client *redis.Client
	id     string // "" outside a cluster

	verb  sync.Mutex // held from a verb's start to its end
	state atomic.Int32
}

// What was done to a node last; a verb under way counts as down.

const (
	down int32 = iota
	up
	hung
	cut
)

// startNode starts a server and returns once it answers.
func startNode(ctx context.Context, l Launcher, opts Options, flags Flags) (*Node, error) {
	s, err := l.Server(flags)
	if err != nil {
		return nil, err
	}
	n := &Node{server: s, client: newClient(s.Addr(), opts.TLS)}
	if err := n.Restart(ctx); err != nil {
		return nil, errors.Join(err, n.client.Close())
	}
	return n, nil
}

// newClient returns a client that tells of each failure.
func newClient(addr string, conf *tls.Config) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		TLSConfig:                conf,
		DialTimeout:              2 * time.Second,
		ReadTimeout:              10 * time.Second,
		WriteTimeout:             10 * time.Second,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Addr returns the host:port that clients dial. It never changes.
func (n *Node) Addr() string { return n.server.Addr() }

// ID returns the node's id in the cluster, which it keeps over a Restart, or
// "" for a server outside a cluster.
func (n *Node) ID() string { return n.id }

// Client returns a client of this node alone, as the default user, with
// timeouts of at most 10 s and no retries. It's closed with the cluster.
func (n *Node) Client() *redis.Client { return n.client }

// Running reports whether the node was not killed, made to hang or cut off.
func (n *Node) Running() bool {
	return n.state.Load() == up
}

// Kill ends the node as kill -9 does, and returns once it's gone. A node that
// is gone already stays so.
func (n *Node) Kill(ctx context.Context) error {
	return n.become(down, func() error { return n.server.Kill(ctx) })
}

// Hang stops the node where it stands: its connections stay open and nothing
// answers on them.
func (n *Node) Hang(ctx context.Context) error {
	return n.become(hung, func() error { return n.server.Hang(ctx) })
}

// Resume lets a node go on that was made to hang. What was sent to it
// meanwhile runs now.
func (n *Node) Resume(ctx context.Context) error {
	return n.become(up, func() error { return n.server.Resume(ctx) })
}

// Cut takes the node off the network, or off one side of it: it runs on, and
// those on that side neither reach it nor hear of it. Connections stay open
// until a timeout ends them. A cut takes the place of one before it. The error is
// [ErrCannotCut] where that can't be done here.
func (n *Node) Cut(ctx context.Context, from Side) error {
	return n.become(cut, func() error { return n.server.Cut(ctx, from) })
}

// Heal takes a node back that was cut off.
func (n *Node) Heal(ctx context.Context) error {
	return n.become(up, func() error { return n.server.Heal(ctx) })
}

// Restart kills the node if it runs, heals it if it was cut off, starts it with the same address, id and
// data folder, and returns once it answers. Its keys are gone: nothing is ever
// saved. The cluster takes it back a little later: see [Cluster.Wait].
func (n *Node) Restart(ctx context.Context) error {
	return n.become(up, func() error {
		if err := n.server.Kill(ctx); err != nil {
			return err
		}
		if err := n.server.Heal(ctx); err != nil {
			return err
		}
		if err := n.server.Start(ctx); err != nil {
			return err
		}
		return poll(ctx, "an answer", n.answers)
	})
}

// become does what leads to the state.
func (n *Node) become(state int32, do func() error) error {
	n.verb.Lock()
	defer n.verb.Unlock()
	before := n.state.Swap(down)
	if err := do(); err != nil {
		n.state.Store(before)
		return fmt.Errorf("rediscluster: node %s: %w", n.Addr(), err)
	}
	n.state.Store(state)
	return nil
}

// answers reports whether it is this node that answers on its address, and not
// some other server that was there first.
func (n *Node) answers(ctx context.Context) error {
	if err := n.server.Exited(ctx); err != nil {
		return finalError{err}
	}
	if err := n.listens(ctx); err != nil {
		return err
	}
	info, err := n.client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if pid := field(info, "process_id"); pid != strconv.Itoa(n.server.PID()) {
		return finalError{fmt.Errorf("process %s answers, not our %d", pid, n.server.PID())}
	}
	return nil
}

// listens reports whether anybody listens on the node's address. The client
// would find out too, but write a line about each refusal.
func (n *Node) listens(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", n.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}

// field returns the value of a line "name:value" of INFO or CLUSTER INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
