package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// VersionError reports a server that is older than Redis 7.0 and so can't run
// the scripts.
type VersionError struct {
	Version string // "6.2.14", or "" if the server doesn't tell
	Shard   string
}

func (e *VersionError) Error() string {
	if e.Version == "" {
		return "server is too old: want Redis 7.0 or Valkey 7.2, or later"
	}
	return fmt.Sprintf("server is version %s: want Redis 7.0 or Valkey 7.2, or later", e.Version)
}

// knowsNoShebang reports whether a server refused a script for its first line,
// "#!lua", as those do that are too old. That costs nothing until it happens;
// a server is not asked for its version before.
func knowsNoShebang(reply string) bool {
	return strings.Contains(reply, "unexpected symbol near '#'")
}

// version returns what the server says its version is, "" if it doesn't. HELLO
// tells it whatever the user's permissions are, and asks for the protocol that
// the connection speaks already: before 6.2 it must name one.
func version(ctx context.Context, deadline time.Time, s *shard) string {
	if s == nil || s.node == nil {
		return ""
	}
	hello := redis.NewMapStringInterfaceCmd(ctx, "hello", s.node.Options().Protocol)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if apart(ctx, func(ctx context.Context) error { return s.node.Process(ctx, hello) }) != nil {
		return ""
	}
	v, _ := hello.Val()["version"].(string)
	return v
}
