package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
)

// fault returns what became of a call to node that failed with err, and sees
// to it that the next one finds a shard that has moved. sent is whether the
// call may have reached a server that didn't refuse it.
func (c *Client) fault(ctx context.Context, node *redis.Client, sent bool, err error) *failover.Error {
	f := &failover.Error{Shard: address(node), Err: err}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		c.explain(ctx, node, f, reply.Error())
		return f
	}
	f.Class = failover.NeverRan
	if sent {
		f.Class = failover.Unknown
	}
	c.reload(ctx)
	return f
}

// explain completes f with what a server's reply means.
func (c *Client) explain(ctx context.Context, node *redis.Client, f *failover.Error, reply string) {
	f.Class = failover.ClassOfReply(reply)
	switch code := failover.ReplyCode(reply); code {
	case "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING": // another serves this slot, or soon will
		c.reload(ctx)
	case "MOVED", "ASK":
		if c.cluster == nil {
			f.Class, f.Err = failover.Configuration, fmt.Errorf("%w: %w", errClustered, f.Err)
		}
	case "ERR":
		if knowsNoShebang(reply) {
			f.Err = &VersionError{Version: version(ctx, node), Shard: f.Shard}
		}
	}
}

// errClustered says that a *redis.Client was given a cluster's node.
var errClustered = errors.New("the server is part of a cluster, which takes a *redis.ClusterClient")

// waitingHelps reports whether a call that failed so might pass a few
// milliseconds later. A server that is out of memory, can't save or has lost
// its replicas stays so for longer than a decision can wait, as does an open
// breaker, a client that is closed stays closed, and after ErrWindow there have
// been tries enough.
func waitingHelps(err *failover.Error) bool {
	if err.Class != failover.NeverRan || errors.Is(err, ErrWindow) || errors.Is(err, failover.ErrOpen) || errors.Is(err, redis.ErrClosed) {
		return false
	}
	return !hasCode(err, "OOM") && !hasCode(err, "MISCONF") && !hasCode(err, "NOREPLICAS")
}

// hasCode reports whether err is a server's reply with this code.
func hasCode(err error, code string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && failover.ReplyCode(reply.Error()) == code
}

// address returns the address of a node, "" of none.
func address(node *redis.Client) string {
	if node == nil {
		return ""
	}
	return node.Options().Addr
}
