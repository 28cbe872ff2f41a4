package cluster

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/closing"
)

// fake stands in for a server that says what no real one can be made to say
// when a test wants it. It is a whole cluster: all slots are its own.
type fake struct {
	listener net.Listener
	scripts  func(call int64, command []string) string // the reply to the call-th EVALSHA or EVAL, from 1; "" hangs up
	hello    func()                                    // before HELLO is answered; nil: nothing
	get      func(key string) string                   // the reply to GET
	owner    string                                    // of all slots; "" is the fake itself
	calls    atomic.Int64
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // open
	dials int
	keys  map[string]int // how often a script was to run on each
}

// newFake returns a fake that replies by the number of the call, and its
// command's name.
func newFake(t testing.TB, scripts func(call int64, name string) string) *fake {
	t.Helper()
	return newFakeOf(t, func(call int64, command []string) string { return scripts(call, command[0]) })
}

func newFakeOf(t testing.TB, scripts func(call int64, command []string) string) *fake {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{listener: listener, scripts: scripts, conns: map[net.Conn]bool{}, keys: map[string]int{}}
	f.serving.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

// client returns a Client of the fake cluster.
func (f *fake) client(t testing.TB, opts Options) *Client {
	t.Helper()
	noLeaks(t)
	c := Open(&redis.ClusterOptions{Addrs: []string{f.addr()}, ReadTimeout: patient}, opts)
	return closing.AtEnd(t, c)
}

// plainClient returns a Client through one whose deadlines interrupt nothing,
// and that waits for ever.
func (f *fake) plainClient(t testing.TB, opts Options) *Client {
	t.Helper()
	noLeaks(t)
	rdb := closing.AtEnd(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{f.addr()}, ReadTimeout: -1, WriteTimeout: -1}))
	c, err := New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fake) addr() string { return f.listener.Addr().String() }

// ran returns how often a script was to run on key.
func (f *fake) ran(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys[key]
}

// dialed returns how many connections there were.
func (f *fake) dialed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

func (f *fake) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		f.mu.Lock()
		f.conns[conn] = true
		f.dials++
		f.mu.Unlock()
		f.serving.Go(func() { f.serve(conn) })
	}
}

func (f *fake) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.serving.Wait()
}

func (f *fake) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		f.mu.Lock()
		delete(f.conns, conn)
		f.mu.Unlock()
	}()
	for r := bufio.NewReader(conn); ; {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		reply := f.reply(command)
		if reply == "" {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func (f *fake) reply(command []string) string {
	switch name := strings.ToLower(command[0]); name {
	case "hello":
		if f.hello != nil {
			f.hello()
		}
		return "*4\r\n" + bulk("server") + bulk("redis") + bulk("version") + bulk("6.0.16")
	case "cluster":
		host, port, _ := net.SplitHostPort(cmp.Or(f.owner, f.addr()))
		return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n" + bulk(host) + ":" + port + "\r\n"
	case "evalsha", "eval":
		command[0] = name
		if command[2] != "1" {
			return "-ERR Number of keys can't be negative\r\n"
		}
		f.mu.Lock()
		f.keys[command[3]]++
		f.mu.Unlock()
		return f.scripts(f.calls.Add(1), command)
	case "get":
		return f.get(command[1])
	default:
		return "+OK\r\n"
	}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// doubles is a script's reply.
func doubles(values ...float64) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return bulk(string(b))
}

// granted is what token_bucket replies where all was granted.
func granted() string { return doubles(1, 1_000_000) }

// readCommand reads one command: an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r)
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := readLength(r)
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+2) // and CR LF
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		command[i] = string(word[:size])
	}
	return command, nil
}

// readLength reads a line like "*3" or "$5".
func readLength(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
