package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/shardlimit/shardlimit"
)

// ClientConfig says how the address of a client is told.
type ClientConfig struct {
	// Trusted are the addresses of the proxies in front of the server: their
	// word about who asked them counts, and nobody else's. None means that
	// clients connect to the server themselves.
	Trusted []netip.Prefix
	// Header is the one header field that all of these proxies write:
	// "X-Forwarded-For", which "" means, or "Forwarded" of RFC 7239. The other is
	// not read, as a client may have written it.
	Header string
	// TrustSockets trusts peers that have no address, as those of a Unix socket.
	TrustSockets bool
	// IPv6Bits is how many bits of an IPv6 address tell clients apart, 1 to 128;
	// 0 means 64, as whoever has one address of a /64 mostly has them all.
	IPv6Bits int
}

// Clients tells the addresses of clients, also of those behind proxies. It is
// safe for concurrent use. NewClients makes one.
type Clients struct{ config ClientConfig }

// NewClients returns a Clients. The error joins a *shardlimit.ConfigError for
// each fault of c.
func NewClients(c ClientConfig) (*Clients, error) {
	if c.Header == "" {
		c.Header = "X-Forwarded-For"
	}
	c.Header = http.CanonicalHeaderKey(c.Header)
	if c.IPv6Bits == 0 {
		c.IPv6Bits = 64
	}
	c.Trusted = slices.Clone(c.Trusted)
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Clients{config: c}, nil
}

// check returns every fault of a config that has its defaults.
func (c *ClientConfig) check() error {
	var faults []error
	fault := func(bad bool, field string, value any, reason string) {
		if bad {
			faults = append(faults, &shardlimit.ConfigError{Field: field, Value: value, Reason: reason})
		}
	}
	for i, p := range c.Trusted {
		fault(!p.IsValid() || p.Addr().Is4In6(), fmt.Sprintf("Trusted[%d]", i), p,
			"must be a prefix of IPv4 or IPv6; for IPv4 within IPv6 say IPv4")
	}
	fault(nodesOf(c.Header) == nil, "Header", c.Header, "must be X-Forwarded-For or Forwarded")
	fault(c.IPv6Bits < 1 || c.IPv6Bits > 128, "IPv6Bits", c.IPv6Bits, "must be 1 to 128")
	return errors.Join(faults...)
}

// Subject is a [Subject]: the client's address, "addr:" before it, as in
// "addr:192.0.2.1" and "addr:2001:db8:1:2::/64". It is "" where the peer has no
// address and TrustSockets didn't help.
func (c *Clients) Subject(r *http.Request) string {
	return c.Name(r.RemoteAddr, r.Header.Values(c.config.Header))
}

// Header returns the canonical name of the header field that is read.
func (c *Clients) Header() string { return c.config.Header }

// Name returns what Subject does for a peer's address, with or without a port,
// and the values of the header field in their order.
//
// From the right, each name in the field was written by the proxy that is named
// to the right of it, the last by the peer. So names count as far as proxies are
// trusted: the client is the first that isn't one. What isn't an address ends
// the search, and the proxy that wrote it stands for the client.
func (c *Clients) Name(peer string, field []string) string {
	addr := parseNode(peer)
	for node := range nodesOf(c.config.Header)(field) {
		if !c.trusts(addr) {
			break
		}
		next := parseNode(node)
		if !next.IsValid() {
			break
		}
		addr = next
	}
	return c.name(addr)
}

// trusts reports whether addr, which is no address for a socket, is a proxy's.
func (c *Clients) trusts(addr netip.Addr) bool {
	if !addr.IsValid() {
		return c.config.TrustSockets
	}
	return slices.ContainsFunc(c.config.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (c *Clients) name(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4():
		return "addr:" + addr.String()
	default:
		return "addr:" + netip.PrefixFrom(addr, c.config.IPv6Bits).Masked().String()
	}
}
