// Package relay makes the network's faults happen between clients and the nodes
// of a cluster, exactly when told to.
package relay

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Proxy stands between clients and one node and makes the network's faults
// happen: it loses replies, resets connections and goes silent, exactly when
// told to. It reads RESP, so it knows which reply answers which command. It
// speaks no TLS, and knows nothing of subscriptions nor of CLIENT REPLY OFF.
// Its methods are safe for concurrent use.
type Proxy struct {
	upstream string
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	links   map[*link]bool
	flows   chan struct{} // closed while data passes
	drop    drop
	dropped int
}

// Drop says what a client sees in place of its reply.
type Drop int

const (
	// ThenClose closes the connection: the client reads EOF.
	ThenClose Drop = iota + 1
	// ThenReset resets the connection.
	ThenReset
	// ThenSilence leaves the connection open and sends nothing on it any more:
	// the client times out. Commands still run.
	ThenSilence
)

// drop is an order to lose replies, or the commands themselves.
type drop struct {
	left    int // how many more
	how     Drop
	command bool
	match   func(command []string) bool
}

// Start starts a proxy for the node at the address upstream, on an address of
// its own. ctx bounds the start alone. The caller closes it.
func Start(ctx context.Context, upstream string) (*Proxy, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{upstream: upstream, listener: listener, links: map[*link]bool{}, flows: make(chan struct{})}
	close(p.flows)
	p.serving.Go(p.accept)
	return p, nil
}

// Addr returns the host:port to dial in the node's place.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// DropReplies loses the replies to the next n commands that match: each runs at
// the node, and once the node has replied the client sees what how says. What
// was sent behind it on the same connection may run or not, and isn't answered
// either. A later call replaces the order; n = 0 ends it. match is given the
// command's name and arguments as they were sent; see [Commands].
func (p *Proxy) DropReplies(n int, how Drop, match func(command []string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = drop{left: n, how: how, match: match}
}

// DropCommands loses the next n commands that match: none reaches the node, and
// the client sees what how says, as of a lost reply. A later call of it or of
// [Proxy.DropReplies] replaces the order.
func (p *Proxy) DropCommands(n int, how Drop, match func(command []string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = drop{left: n, how: how, command: true, match: match}
}

// Dropped returns how many replies or commands were lost so far when told to.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Commands matches the commands of these names.
func Commands(names ...string) func(command []string) bool {
	return func(command []string) bool {
		return len(command) > 0 && slices.ContainsFunc(names, func(name string) bool {
			return strings.EqualFold(name, command[0])
		})
	}
}

// Reset resets the connections that are open now. New ones are served.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end(ThenReset)
	}
}

// BlackHole stops all data, either way, on connections old and new, until
// [Proxy.Restore]. None is lost: what was sent meanwhile arrives late.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.flows) {
		p.flows = make(chan struct{})
	}
}

// Restore ends a [Proxy.BlackHole].
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isClosed(p.flows) {
		close(p.flows)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Close closes all connections, and returns once nothing of the proxy runs.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.end(ThenClose)
	}
	p.mu.Unlock()
	p.serving.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.serving.Go(func() { p.serve(client) })
	}
}

// serve carries one connection until it ends.
func (p *Proxy) serve(client net.Conn) {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	server, err := dialer.DialContext(context.Background(), "tcp", p.upstream)
	if err != nil {
		_ = client.Close() // the client sees EOF, as from a node that just died
		return
	}
	l := &link{proxy: p, client: client, server: server, done: make(chan struct{}), asked: make(chan Drop, 1024)}
	p.add(l)
	defer p.remove(l)

	var both sync.WaitGroup
	both.Go(l.requests)
	both.Go(l.replies)
	both.Wait()
}

func (p *Proxy) add(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
	if p.closed {
		l.end(ThenClose)
	}
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// fate says what is to become of the command's reply, 0 means it's delivered;
// or, if lost, of the command.
func (p *Proxy) fate(command []string) (how Drop, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drop.left <= 0 || !p.drop.match(command) {
		return 0, false
	}
	p.drop.left--
	return p.drop.how, p.drop.command
}

func (p *Proxy) noteDropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

// link is one client's connection and its continuation to the node.
type link struct {
	proxy  *Proxy
	client net.Conn
	server net.Conn
	asked  chan Drop // the fates of the replies to come, in order

	once sync.Once
	done chan struct{} // closed by end
}

// requests carries the client's commands to the node.
func (l *link) requests() {
	defer l.end(ThenClose)
	silent := false
	for in := newFrames(l.client); ; {
		f, err := in.next()
		if err != nil || !l.passes() {
			return
		}
		if silent {
			continue
		}
		how, lost := l.proxy.fate(f.words)
		if lost {
			if silent = l.lose(how); !silent {
				return
			}
			continue
		}
		select {
		case l.asked <- how:
		case <-l.done:
			return
		}
		if _, err := l.server.Write(f.raw); err != nil {
			return
		}
	}
}

// replies carries the node's replies to the client, but for those to be lost.
func (l *link) replies() {
	defer l.end(ThenClose)
	silent := false
	for in := newFrames(l.server); ; {
		f, err := in.next()
		if err != nil || !l.passes() {
			return
		}
		if how := l.fateOf(f); how != 0 {
			if silent = l.lose(how); !silent {
				return
			}
		}
		if silent {
			continue
		}
		if _, err := l.client.Write(f.raw); err != nil {
			return
		}
	}
}

// lose has the client see what how says. It reports whether the connection stays,
// and is silent.
func (l *link) lose(how Drop) bool {
	l.proxy.noteDropped()
	if how != ThenSilence {
		l.end(how)
		return false
	}
	return true
}

// fateOf takes the fate of the reply from the queue; what comes unasked has
// none. A reply's fate is there before its command has left.
func (l *link) fateOf(f frame) Drop {
	if f.push() {
		return 0
	}
	select {
	case how := <-l.asked:
		return how
	default:
		return 0
	}
}

// passes waits while the proxy is a black hole, and reports whether the link
// is still there.
func (l *link) passes() bool {
	l.proxy.mu.Lock()
	flows := l.proxy.flows
	l.proxy.mu.Unlock()
	select {
	case <-flows:
		return true
	case <-l.done:
		return false
	}
}

// end closes both connections, the client's in the way that how says.
func (l *link) end(how Drop) {
	l.once.Do(func() {
		close(l.done)
		if tcp, ok := l.client.(*net.TCPConn); ok && how == ThenReset {
			_ = tcp.SetLinger(0) // then Close sends a reset
		}
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// Set is proxies in front of a cluster's nodes, by the node's address.
type Set map[string]*Proxy

// StartSet starts a proxy for each of the nodes. The client whose
// ClusterOptions.Dialer is the set's Dial goes through them; the nodes go on
// reaching each other directly. ctx bounds the start alone. The caller closes
// it.
func StartSet(ctx context.Context, nodes ...string) (Set, error) {
	set := Set{}
	for _, addr := range nodes {
		p, err := Start(ctx, addr)
		if err != nil {
			return nil, errors.Join(err, set.Close())
		}
		set[addr] = p
	}
	return set, nil
}

// Dial dials the proxy of the node at addr; a node that has none, itself.
func (set Set) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if p := set[addr]; p != nil {
		addr = p.Addr()
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	return dialer.DialContext(ctx, network, addr)
}

// Close closes the proxies.
func (set Set) Close() error {
	var errs []error
	for _, p := range set {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
