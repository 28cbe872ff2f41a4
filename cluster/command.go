package cluster

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/scripts"
)

// command is a call of a script as the client sends it. It goes out at most
// once, not counting those times that a server refused to run it.
type command struct {
	*redis.StringCmd
	keys    keyCount
	storage [16]any // of the arguments: enough for most
}

// newCommand returns the call as EVALSHA or EVAL: verb, and the script as that
// names it.
func newCommand(ctx context.Context, verb, script string, call *scripts.Call, key string) *command {
	c := &command{}
	args := append(c.storage[:0], verb, script, &c.keys, key)
	c.StringCmd = redis.NewStringCmd(ctx, call.AppendArgs(args)...)
	c.SetFirstKeyPos(firstKey)
	c.SetStepCount(1) // else the client asks COMMAND for it
	return c
}

// firstKey is the position of the first key among the arguments.
const firstKey = 3

// NoRetry tells the client not to send the command again when it does not know
// what became of it.
func (c *command) NoRetry() bool { return true }

// SetErr notes what the client met. An error that a server replied with means
// that what was sent did not run, so that a redirect starts anew.
func (c *command) SetErr(err error) {
	if isReply(err) {
		c.keys.sent = false
	}
	c.StringCmd.SetErr(err)
}

// sent reports whether the command was written to a connection and not refused
// there, so that it may have run, or may run yet.
func (c *command) sent() bool { return c.keys.sent }

// keyCount is the number of keys as an argument, which is 1. It notes when the
// client encodes it: the client's errors alone do not tell whether it had a
// connection yet when it failed.
type keyCount struct{ sent bool }

// MarshalBinary is what the client calls while it writes the command.
func (k *keyCount) MarshalBinary() ([]byte, error) {
	k.sent = true
	return one, nil
}

var one = []byte("1")

// String is how the argument appears in traces.
func (k *keyCount) String() string { return "1" }

// isReply reports whether a server replied with err.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
