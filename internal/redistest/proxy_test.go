package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
)

const incr = "return redis.call('INCR', KEYS[1])"

// counter is a server behind a proxy, and a client that goes through it.
type counter struct {
	proxy  *relay.Proxy
	direct *redis.Client
	rdb    *redis.Client
	key    string
}

func newCounter(t *testing.T) counter {
	t.Helper()
	s := redistest.StartSingle(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	rdb := redis.NewClient(&redis.Options{
		Addr:                     p.Addr(),
		MaxRetries:               -1,
		DialerRetries:            1,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	closing.AtEnd(t, rdb)
	return counter{proxy: p, direct: s.Client(), rdb: rdb, key: redistest.Prefix(t)}
}

// add calls the script once, bounded by a tenth of a second.
func (c counter) add(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	return c.rdb.Eval(ctx, incr, []string{c.key}).Err()
}

func (c counter) wantRan(t *testing.T, want int) {
	t.Helper()
	if got, err := c.direct.Get(t.Context(), c.key).Int(); err != nil || got != want {
		t.Errorf("the script ran %d times (%v), want %d", got, err, want)
	}
}

func TestProxyDropsExactlyTheRepliesAndCommandsAskedFor(t *testing.T) {
	for _, mode := range []struct {
		name string
		how  relay.Drop
		want func(error) bool
	}{
		{"close", relay.ThenClose, func(err error) bool { return errors.Is(err, io.EOF) }},
		{"reset", relay.ThenReset, isLost},
		{"silence", relay.ThenSilence, isTimeout},
	} {
		t.Run(mode.name, func(t *testing.T) {
			c := newCounter(t)
			lost := func() {
				t.Helper()
				for i := range 2 {
					if err := c.rdb.Ping(t.Context()).Err(); err != nil {
						t.Errorf("PING %d, which doesn't match: %v", i, err)
					}
					if err := c.add(t); !mode.want(err) {
						t.Errorf("EVAL %d: %v", i, err)
					}
				}
				if err := c.rdb.Eval(t.Context(), incr, []string{c.key}).Err(); err != nil {
					t.Errorf("EVAL after the last drop: %v", err)
				}
			}
			c.proxy.DropReplies(2, mode.how, relay.Commands("eval"))
			lost()
			c.wantRan(t, 3)
			c.proxy.DropCommands(2, mode.how, relay.Commands("eval"))
			lost()
			c.wantRan(t, 4)
			if got := c.proxy.Dropped(); got != 4 {
				t.Errorf("Dropped = %d, want 4", got)
			}
		})
	}
}

// isLost reports whether the connection went: the client doesn't say how.
func isLost(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

func TestProxyDropsFromTheMiddleOfAPipeline(t *testing.T) {
	for how, want := range map[relay.Drop]error{
		relay.ThenClose:   nil, // what ReadAll says of EOF
		relay.ThenReset:   syscall.ECONNRESET,
		relay.ThenSilence: os.ErrDeadlineExceeded,
	} {
		c := newCounter(t)
		third := func(command []string) bool { return len(command) == 3 && command[2] == "30" }
		c.proxy.DropReplies(math.MaxInt, how, third)
		got, err := exchange(t, c.proxy.Addr(), "incrby n 10", "incrby n 20", "incrby n 30", "ping")
		if got != ":10\r\n:30\r\n" || !errors.Is(err, want) {
			t.Errorf("drop %d: read %q, then %v; want two replies, then %v", how, got, err, want)
		}
		if n, err := c.direct.Get(t.Context(), "n").Int(); err != nil || n != 60 {
			t.Errorf("drop %d: n = %d, %v; want 60, the command that lost its reply included", how, n, err)
		}
	}
}

// exchange sends commands in one write and returns all that comes back until
// the connection ends or is silent for a tenth of a second.
func exchange(t *testing.T, addr string, commands ...string) (string, error) {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	closing.Opened(t, conn, err)
	var out strings.Builder
	for _, command := range commands {
		words := strings.Fields(command)
		fmt.Fprintf(&out, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if _, err := io.WriteString(conn, out.String()); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	return string(got), err
}

func TestProxyPassesEveryTypeOfReply(t *testing.T) {
	c := newCounter(t)
	rdb := c.rdb // RESP3
	const binary = "a\r\nb\x00$5"
	if err := rdb.HSet(t.Context(), "h", "field", binary).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := rdb.HGetAll(t.Context(), "h").Result(); err != nil || got["field"] != binary {
		t.Errorf("a map: %q, %v", got, err)
	}
	if err := rdb.Get(t.Context(), "missing").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("a null: %v", err)
	}
	if got, err := rdb.Eval(t.Context(), "return {1, 'two', {3, false}}", nil).Slice(); err != nil || len(got) != 3 {
		t.Errorf("nested arrays: %v, %v", got, err)
	}
	if err := rdb.ZAdd(t.Context(), "z", redis.Z{Score: 1.5, Member: "m"}).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := rdb.ZScore(t.Context(), "z", "m").Result(); err != nil || got != 1.5 {
		t.Errorf("a double: %v, %v", got, err)
	}
	if err := rdb.Do(t.Context(), "NONSENSE").Err(); !redis.HasErrorPrefix(err, "unknown command") {
		t.Errorf("an error: %v", err)
	}
}

func TestProxyResetHitsOpenConnectionsOnly(t *testing.T) {
	c := newCounter(t)
	conn := c.rdb.Conn()
	closing.AtEnd(t, conn)
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	c.proxy.Reset()
	if err := conn.Ping(t.Context()).Err(); err == nil {
		t.Error("the connection lived on")
	}
	if err := c.add(t); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestProxyBlackHoleHoldsDataBack(t *testing.T) {
	c := newCounter(t)
	if err := c.add(t); err != nil {
		t.Fatal(err)
	}
	c.proxy.BlackHole()
	c.proxy.BlackHole() // the same
	if err := c.add(t); err == nil {
		t.Error("a reply came out of the black hole")
	}
	c.wantRan(t, 1)
	c.proxy.Restore()
	if err := c.add(t); err != nil {
		t.Errorf("after Restore: %v", err)
	}
}

func TestProxiesStandInFrontOfACluster(t *testing.T) {
	c := redistest.Shared(t)
	proxies := redistest.NewProxies(t, c)
	rdb := redistest.Client(t, c, func(o *redis.ClusterOptions) {
		o.Dialer = proxies.Dial
		o.MaxRedirects = -1
	})
	prefix := redistest.Prefix(t)
	for i := range 30 {
		if err := rdb.Incr(t.Context(), prefix+strconv.Itoa(i)).Err(); err != nil {
			t.Fatal(err)
		}
	}

	slot, err := rdb.ClusterKeySlot(t.Context(), prefix+"0").Result()
	if err != nil {
		t.Fatal(err)
	}
	owner, err := c.Owner(t.Context(), int(slot))
	if err != nil {
		t.Fatal(err)
	}
	proxies[owner.Addr()].DropReplies(1, relay.ThenClose, relay.Commands("INCR"))
	if err := rdb.Incr(t.Context(), prefix+"0").Err(); !errors.Is(err, io.EOF) {
		t.Errorf("INCR = %v, want its reply lost", err)
	}
	if got, err := rdb.Get(t.Context(), prefix+"0").Int(); err != nil || got != 2 {
		t.Errorf("GET = %d, %v; want it run all the same", got, err)
	}
}
