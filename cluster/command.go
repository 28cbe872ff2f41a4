package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/scripts"
)

// command is a call of a script as the client sends it, and its place in a
// queue meanwhile. It goes out at most once, not counting those times that a
// server refused to run it.
//
// Commands are used again, so a hook of the user's must not keep one for longer
// than it runs.
type command struct {
	*redis.ZeroCopyStringCmd // what the client writes the reply and its errors to

	call    *scripts.Call // that is sent; read by whoever makes it, and nobody else
	verb    string        // evalsha, eval
	keys    keyCount
	key     string
	args    []any
	storage [16]any // of args: enough for most
	reply   [longestReply]byte
	asking  bool // goes behind an ASKING, to the node that a slot moves to

	deadline time.Time
	done     chan struct{} // receives once the client has let go of the command
	timer    *time.Timer   // of whoever waits for that
	err      error         // that the client or a server answered with

	// Guarded by the shard's mutex.
	prev, next *command
	queued     bool
}

// longestReply is room for what scripts reply, and for the line's end.
const longestReply = scripts.LongestReply + len("\r\n")

var commands = sync.Pool{New: func() any {
	c := &command{
		done:  make(chan struct{}, 1),
		timer: time.NewTimer(time.Hour),
	}
	c.timer.Stop()
	c.reroute(context.Background())
	return c
}}

// newCommand returns the call as EVALSHA or, with the script's text, as EVAL.
// Its arguments point into it, or at what never changes.
func newCommand(call *scripts.Call, key string, text bool) *command {
	c := commands.Get().(*command)
	c.call, c.verb, c.key = call, "evalsha", key
	script := call.Script()
	args := append(c.storage[:0], any("evalsha"), &script.SHA, &c.keys, &c.key)
	if text {
		c.verb, args[0], args[1] = "eval", any("eval"), &script.Text
	}
	c.args = call.AppendArgs(args)
	return c
}

// free takes back a command that nobody holds any more.
func (c *command) free() {
	clear(c.storage[:])
	c.call, c.args, c.key, c.asking, c.err = nil, nil, "", false, nil
	c.keys.state.Store(waiting)
	c.SetVal(0)
	c.ZeroCopyStringCmd.SetErr(nil)
	commands.Put(c)
}

// firstKey is the position of the first key among the arguments.
const firstKey = 3

// reroute makes the command one that a *redis.ClusterClient can route: that
// looks for the key among arguments which the command was made with, and
// remembers the slot. It sees to it that the client finds the key by itself, and
// asks COMMAND for nothing.
func (c *command) reroute(ctx context.Context) {
	c.ZeroCopyStringCmd = redis.NewZeroCopyStringCmd(ctx, c.reply[:], c.args...)
	c.SetFirstKeyPos(firstKey)
	c.SetStepCount(1)
}

// Name, FullName and Args are what the client sends and hooks see.

// Name returns the command's name.
func (c *command) Name() string { return c.verb }

// FullName returns the command's name.
func (c *command) FullName() string { return c.verb }

// Args returns the arguments, from the name on.
func (c *command) Args() []any { return c.args }

// NoRetry tells the client not to send the command again when it does not know
// what became of it.
func (c *command) NoRetry() bool { return true }

// SetErr notes what the client met. What a server answered stays: of a pipeline
// whose connection is lost the client marks those commands as failed too that
// were answered before.
func (c *command) SetErr(err error) {
	switch c.keys.state.Load() {
	case answered, refused, spoilt:
		return
	case sent:
		c.settle(err)
	default:
		c.err = err
	}
	c.ZeroCopyStringCmd.SetErr(err)
}

// settle notes what became of a command that was sent.
func (c *command) settle(err error) {
	c.err = err
	switch {
	case err == nil:
		c.keys.state.Store(answered)
	case isReply(err): // so it did not run
		c.keys.state.Store(refused)
	}
}

// outcome is what became of a command.
type outcome struct {
	reply scripts.Reply
	err   error
	sent  bool // and not refused: it may have run, or may run yet
}

// errNoReply says that the client reported no error and yet no reply.
var errNoReply = errors.New("the client returned no reply")

// outcome returns what became of a command that the client has let go of, with
// err.
func (c *command) outcome(err error) outcome {
	state := c.keys.state.Load()
	if state == answered {
		return c.decode()
	}
	switch {
	case c.err != nil:
		err = c.err
	case err == nil:
		err = errNoReply
	}
	return outcome{err: err, sent: state == sent}
}

// decode returns what the script replied.
func (c *command) decode() outcome {
	reply, err := c.call.Decode(string(c.Bytes()))
	return outcome{reply: reply, err: err}
}

// abandon returns what became of a command that the client still has, to a
// caller who waits no longer because of err. Where it wasn't sent yet it won't
// be any more.
func (c *command) abandon(err error) outcome {
	for {
		switch state := c.keys.state.Load(); state {
		case answered:
			return c.decode()
		case sent:
			return outcome{err: err, sent: true}
		default:
			if !c.keys.state.CompareAndSwap(state, spoilt) {
				continue
			}
			if state == refused {
				err = c.err
			}
			return outcome{err: err}
		}
	}
}

// keyCount is the number of keys as an argument, which is 1. It notes when the
// client encodes it: the client's errors alone do not tell whether it had a
// connection yet when it failed.
type keyCount struct{ state atomic.Uint32 }

// How far a command got.
const (
	waiting  uint32 = iota // for a connection
	sent                   // or about to be
	answered               // by the script
	refused                // by a server, and may go to another
	spoilt                 // its caller has gone, nothing may be charged any more
)

// MarshalBinary is what the client calls while it writes the command. A command
// can't be left out of a pipeline at that point; one that is spoilt gets a
// number of keys that no server runs a script with.
func (k *keyCount) MarshalBinary() ([]byte, error) {
	for {
		state := k.state.Load()
		if state == spoilt {
			return none, nil
		}
		if k.state.CompareAndSwap(state, sent) {
			return one, nil
		}
	}
}

var one, none = []byte("1"), []byte("-1")

// String is how the argument appears in traces.
func (k *keyCount) String() string { return "1" }

// isReply reports whether a server replied with err.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
