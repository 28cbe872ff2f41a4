// Package failover says what a failed call to a shard means: whether it may
// have charged, and whether the shard is to blame or the caller. Its [Breakers]
// say which shards are worth a call, and find out when those that weren't are
// so again.
package failover

import (
	"fmt"
	"strings"
)

// Class says what became of a call that got no answer.
type Class uint8

// The classes. The zero Class is none of them.
const (
	// NeverRan: the shard refused the call, or was not reached: nothing was
	// charged, and none of it is under way.
	NeverRan Class = iota + 1
	// Unknown: the call may have run, or may run yet. It must not be sent
	// again.
	Unknown
	// Configuration: somebody has to change something before such a call can
	// work: a permission, a password, a key that holds something else, the
	// server's version.
	Configuration
	// Caller: the caller gave up. The shard is not to blame.
	Caller
)

// String returns the class in words.
func (c Class) String() string {
	switch c {
	case NeverRan:
		return "never ran"
	case Unknown:
		return "outcome unknown"
	case Configuration:
		return "configuration"
	case Caller:
		return "caller"
	default:
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
}

// Unavailable reports whether the shard could not decide, so that a failure
// mode answers in its place. The other classes are errors to the caller.
func (c Class) Unavailable() bool {
	return c == NeverRan || c == Unknown
}

// Error is why a call got no answer.
type Error struct {
	Class Class
	Shard string // the address of the primary asked, "" if none was found
	Err   error  // the cause
}

func (e *Error) Error() string {
	if e.Shard == "" {
		return fmt.Sprintf("%v: %v", e.Class, e.Err)
	}
	return fmt.Sprintf("shard %s: %v: %v", e.Shard, e.Class, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOfReply returns the class of an error that a server replied with. What
// it does not know is [Configuration], so that it is seen.
func ClassOfReply(text string) Class {
	switch ReplyCode(text) {
	case "MOVED", "ASK", "NOSCRIPT", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY",
		"BUSY", "OOM", "NOREPLICAS", "MISCONF":
		return NeverRan
	}
	if strings.HasPrefix(text, "ERR max number of clients") {
		return NeverRan
	}
	return Configuration
}

// ReplyCode returns the word in capitals that an error reply begins with: "OOM".
// Of an error in a script that wraps another, as servers did before Redis 7 and
// Valkey, it is the inner one's: "ERR Error running script (call to f_…):
// @user_script:1: @user_script: 1: -OOM command not allowed …".
func ReplyCode(text string) string {
	rest, wraps := strings.CutPrefix(text, "ERR Error running script (")
	if !wraps {
		code, _, _ := strings.Cut(text, " ")
		return code
	}
	for {
		_, inner, found := strings.Cut(rest, ": -")
		if !found {
			return "ERR"
		}
		if word, _, _ := strings.Cut(inner, " "); isCode(word) {
			return word
		}
		rest = inner
	}
}

// isCode reports whether word can be an error's code: capitals alone.
func isCode(word string) bool {
	for _, r := range word {
		if r < 'A' || r > 'Z' {
			return false
		}
	}
	return word != ""
}
