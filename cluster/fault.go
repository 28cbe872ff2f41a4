package cluster

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
)

// fault returns what became of a call that failed with err, and sees to it
// that the next one finds a shard that has moved. sent is whether the call may
// have reached a server that didn't refuse it.
func (c *Client) fault(ctx context.Context, shard string, sent bool, err error) *failover.Error {
	f := &failover.Error{Class: failover.NeverRan, Shard: shard, Err: err}
	reply, replied := errors.AsType[redis.Error](err)
	switch {
	case replied:
		f.Class = failover.ClassOfReply(reply.Error())
	case sent:
		f.Class = failover.Unknown
	}
	if !replied || mayHaveMoved(reply.Error()) {
		c.reload(ctx)
	}
	return f
}

// mayHaveMoved reports whether a server replied so because another one serves
// its slots, or soon will.
func mayHaveMoved(reply string) bool {
	switch failover.ReplyCode(reply) {
	case "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING":
		return true
	}
	return false
}

// waitingHelps reports whether a call that failed so might pass a few
// milliseconds later. A server that is out of memory, can't save or has lost
// its replicas stays so for longer than a decision can wait.
func waitingHelps(err *failover.Error) bool {
	if err.Class != failover.NeverRan || errors.Is(err, ErrWindow) {
		return false
	}
	return !hasCode(err, "OOM") && !hasCode(err, "MISCONF") && !hasCode(err, "NOREPLICAS")
}

// hasCode reports whether err is a server's reply with this code.
func hasCode(err error, code string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && failover.ReplyCode(reply.Error()) == code
}
