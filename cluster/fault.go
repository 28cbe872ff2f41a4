package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/scripts"
)

// fault returns what became of a call that went to w and got no answer, and
// sees to it that the next one finds a shard that has moved.
func (c *Client) fault(ctx context.Context, deadline time.Time, w way, result outcome) *failover.Error {
	f := &failover.Error{Shard: w.addr(), Err: result.err}
	switch {
	case replyText(result.err) != "":
		c.explain(ctx, deadline, w, f, replyText(result.err))
		return f
	case isOdd(result.err):
		f.Class = failover.Configuration
		return f
	case result.sent:
		f.Class = failover.Unknown
	default:
		f.Class = failover.NeverRan
	}
	f.Err = asLate(f.Err)
	if !isOurs(ctx, f) {
		c.reload()
	}
	return f
}

// isOdd reports whether err is of a reply that no script of ours sends.
func isOdd(err error) bool {
	_, odd := errors.AsType[*scripts.ReplyError](err)
	return odd
}

// explain completes f with what a server's reply means.
func (c *Client) explain(ctx context.Context, deadline time.Time, w way, f *failover.Error, reply string) {
	f.Class = failover.ClassOfReply(reply)
	switch code := failover.ReplyCode(reply); code {
	case "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING": // another serves this slot, or soon will
		c.reload()
	case "MOVED", "ASK":
		if c.cluster == nil {
			f.Class, f.Err = failover.Configuration, fmt.Errorf("%w: %w", errClustered, f.Err)
		}
	case "ERR":
		if knowsNoShebang(reply) {
			f.Err = &VersionError{Version: version(ctx, deadline, w.shard), Shard: f.Shard}
		}
	}
}

// errClustered says that a *redis.Client was given a cluster's node.
var errClustered = errors.New("the server is part of a cluster, which takes a *redis.ClusterClient")

// waitingHelps reports whether a call that failed so might pass a few
// milliseconds later. A server that is out of memory, can't save or has lost
// its replicas stays so for longer than a decision can wait, a client that is
// closed stays closed, after ErrWindow there have been tries enough, and what is
// full or open says so in order that nobody waits.
func waitingHelps(err *failover.Error) bool {
	switch {
	case err.Class != failover.NeverRan:
		return false
	case errors.Is(err, ErrWindow), errors.Is(err, ErrQueueFull), errors.Is(err, failover.ErrOpen), errors.Is(err, ErrClosed):
		return false
	}
	return !hasCode(err, "OOM") && !hasCode(err, "MISCONF") && !hasCode(err, "NOREPLICAS")
}

// hasCode reports whether err is a server's reply with this code.
func hasCode(err error, code string) bool {
	return failover.ReplyCode(replyText(err)) == code
}

// replyText returns what a server replied with, "" if err is not from one.
func replyText(err error) string {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		return ""
	}
	return reply.Error()
}
