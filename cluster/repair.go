package cluster

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
)

// way is where a call goes, and as what.
type way struct {
	shard  *shard
	named  string // the address that a redirect named, "" if none did
	asking bool   // because the slot moves to that shard
	text   bool   // with the script's text
}

// addr returns the address that the call goes to.
func (w way) addr() string {
	if w.shard == nil || w.named != "" {
		return w.named
	}
	return w.shard.addr
}

// sends is how often a call goes out at once, each time because a server told
// where to send it, or that it doesn't know the script. After that it is held
// back for a little.
const sends = 8

// repair returns the way that a server's refusal points to, if it does.
func (c *Client) repair(w way, err error) (way, bool) {
	text := replyText(err)
	switch code := failover.ReplyCode(text); {
	case code == "NOSCRIPT" && !w.text:
		w.text = true
		return w, true
	case code == "MOVED" && c.cluster != nil:
		c.reload()
		return c.wayTo(target(text, w.addr()), false), true
	case code == "ASK" && c.cluster != nil:
		return c.wayTo(target(text, w.addr()), true), true
	case errors.Is(err, redis.ErrClosed) && w.named != "" && w.shard.node != nil:
		c.shards.remove(w.shard) // it had left the cluster once
		return c.wayTo(w.named, w.asking), true
	default:
		return w, false
	}
}

// wayTo returns the way to a node that a redirect named. The client has no
// means to find one by its address; those that it told of are known, which is
// all, or nearly all if it was used before. Others are reached through the
// cluster's client, from the start.
func (c *Client) wayTo(addr string, asking bool) way {
	if s := c.shards.at(addr); s != nil {
		return way{shard: s, named: addr, asking: asking}
	}
	return way{shard: c.strays, named: addr}
}

// target returns the address in "MOVED 3999 127.0.0.1:6381". Without a host it
// is the one of the node that said so: see the cluster specification,
// "MOVED Redirection".
func target(redirect, from string) string {
	host, port := split(redirect[strings.LastIndexByte(redirect, ' ')+1:])
	if host == "" {
		host, _ = split(from)
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// split splits an address at its last colon: unlike net.SplitHostPort it takes
// the IPv6 addresses that servers write without brackets.
func split(addr string) (host, port string) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return addr, ""
	}
	return addr[:i], addr[i+1:]
}
