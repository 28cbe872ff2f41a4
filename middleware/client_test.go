package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/middleware"
)

// proxies are the trusted ones of the tests: 10.0.0.0/8, and one /48.
var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:aaaa::/48")}

// loopback are the addresses of those who ask in tests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newClients(t *testing.T, c middleware.ClientConfig) *middleware.Clients {
	t.Helper()
	clients, err := middleware.NewClients(c)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// named is what a header field names, and whom that makes the client.
type named struct {
	name  string
	peer  string
	field []string
	want  string
}

func checkNamed(t *testing.T, c *middleware.Clients, tests []named) {
	t.Helper()
	for _, tt := range tests {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = tt.peer
		r.Header[c.Header()] = tt.field
		if got := c.Subject(r); got != tt.want {
			t.Errorf("%s: peer %s, %s %q: %q, want %q", tt.name, tt.peer, c.Header(), tt.field, got, tt.want)
		}
	}
}

func TestXForwardedForIsReadFromTheRightThroughTrustedProxies(t *testing.T) {
	checkNamed(t, newClients(t, middleware.ClientConfig{Trusted: proxies}), []named{
		{"no proxy", "192.0.2.1:1234", nil, "addr:192.0.2.1"},
		{"spoofed without a proxy", "192.0.2.1:1234", []string{"198.51.100.7"}, "addr:192.0.2.1"},
		{"spoofed as a proxy", "192.0.2.1:1234", []string{"10.0.0.1"}, "addr:192.0.2.1"},
		{"one proxy", "10.0.0.1:80", []string{"192.0.2.1"}, "addr:192.0.2.1"},
		{"one proxy, spoofed", "10.0.0.1:80", []string{"198.51.100.7, 192.0.2.1"}, "addr:192.0.2.1"},
		{"one proxy, spoofed as a proxy", "10.0.0.1:80", []string{"10.0.0.9, 192.0.2.1"}, "addr:192.0.2.1"},
		{"spoofed in a line before", "10.0.0.1:80", []string{"198.51.100.7", "192.0.2.1"}, "addr:192.0.2.1"},
		{"spoofed with garbage", "10.0.0.1:80", []string{`",;=[, x, 192.0.2.1`}, "addr:192.0.2.1"},
		{"two proxies", "10.0.0.1:80", []string{"192.0.2.1, 10.0.0.2"}, "addr:192.0.2.1"},
		{"a proxy that isn't trusted", "10.0.0.1:80", []string{"192.0.2.1, 203.0.113.5"}, "addr:203.0.113.5"},
		{"an untrusted proxy behind trusted ones", "10.0.0.1:80", []string{"192.0.2.1, 203.0.113.5, 10.0.0.2"}, "addr:203.0.113.5"},
		{"only proxies", "10.0.0.1:80", []string{"10.0.0.3, 10.0.0.2"}, "addr:10.0.0.3"},
		{"a proxy that says nothing", "10.0.0.1:80", nil, "addr:10.0.0.1"},
		{"what is no address", "10.0.0.1:80", []string{"192.0.2.1, unknown, 10.0.0.2"}, "addr:10.0.0.2"},
		{"empty elements", "10.0.0.1:80", []string{"192.0.2.1, ,, ", ""}, "addr:192.0.2.1"},
		{"a port", "10.0.0.1:80", []string{"192.0.2.1:5678"}, "addr:192.0.2.1"},
		{"IPv6", "[2001:db8:aaaa::1]:80", []string{"2001:db8:1:2:3:4:5:6"}, "addr:2001:db8:1:2::/64"},
		{"IPv6 in brackets", "10.0.0.1:80", []string{"[2001:db8:1:2:3:4:5:6]"}, "addr:2001:db8:1:2::/64"},
		{"IPv6 with a port", "10.0.0.1:80", []string{"[2001:db8:1:2:3:4:5:6]:5678"}, "addr:2001:db8:1:2::/64"},
		{"IPv6 with a zone", "[fe80::1%eth0]:80", nil, "addr:fe80::/64"},
		{"IPv4 within IPv6", "[::ffff:10.0.0.1]:80", []string{"::ffff:192.0.2.1"}, "addr:192.0.2.1"},
		{"IPv4 within IPv6, with a port", "10.0.0.1:80", []string{"[::ffff:192.0.2.1]:5678"}, "addr:192.0.2.1"},
		{"IPv4 within IPv6, as hex", "10.0.0.1:80", []string{"::ffff:c000:201"}, "addr:192.0.2.1"},
		{"a proxy's zone", "[2001:db8:aaaa::1%eth0]:80", []string{"192.0.2.1"}, "addr:192.0.2.1"},
		{"a zone in the field", "10.0.0.1:80", []string{"fe80::1%25, fe80::2%x,y"}, "addr:10.0.0.1"},
		{"another zone is the same client", "10.0.0.1:80", []string{"fe80::2%eth7"}, "addr:fe80::/64"},
		{"zeros before a number", "10.0.0.1:80", []string{"192.0.2.01"}, "addr:10.0.0.1"},
		{"a number in place of an address", "10.0.0.1:80", []string{"3221225985"}, "addr:10.0.0.1"},
		{"a port without an address", "10.0.0.1:80", []string{":80"}, "addr:10.0.0.1"},
		{"half a bracket", "10.0.0.1:80", []string{"[2001:db8:1:2::3"}, "addr:10.0.0.1"},
		{"IPv4 in brackets", "10.0.0.1:80", []string{"[192.0.2.1]"}, "addr:10.0.0.1"},
		{"the address of anybody", "10.0.0.1:80", []string{"0.0.0.0"}, "addr:0.0.0.0"},
		{"as long as a header may be", "10.0.0.1:80", []string{strings.Repeat("10.0.0.9,", 100_000) + "192.0.2.1"}, "addr:192.0.2.1"},
		{"long, of proxies alone", "10.0.0.1:80", []string{strings.Repeat("10.0.0.9,", 100_000)}, "addr:10.0.0.9"},
		{"no peer", "", []string{"192.0.2.1"}, ""},
		{"an address that is too much", "10.0.0.1:80", []string{"192.0.2.1 192.0.2.2"}, "addr:10.0.0.1"},
		{"the other field", "10.0.0.1:80", []string{"for=192.0.2.1"}, "addr:10.0.0.1"},
		{"a socket", "@", []string{"192.0.2.1"}, ""},
	})
}

func TestForwardedIsReadFromTheRightThroughTrustedProxies(t *testing.T) {
	checkNamed(t, newClients(t, middleware.ClientConfig{Trusted: proxies, Header: "forwarded"}), []named{
		{"no proxy", "192.0.2.1:1234", []string{"for=198.51.100.7"}, "addr:192.0.2.1"},
		{"one proxy", "10.0.0.1:80", []string{"for=192.0.2.1"}, "addr:192.0.2.1"},
		{"other parameters", "10.0.0.1:80", []string{`by=10.0.0.1;For="192.0.2.1:8080" ; proto=https;host="a,b;for=198.51.100.7"`}, "addr:192.0.2.1"},
		{"two proxies", "10.0.0.1:80", []string{"for=192.0.2.1, for=10.0.0.2"}, "addr:192.0.2.1"},
		{"spoofed", "10.0.0.1:80", []string{"for=198.51.100.7, for=192.0.2.1"}, "addr:192.0.2.1"},
		{"spoofed by a quote that stays open", "10.0.0.1:80", []string{`for=", for=192.0.2.1`}, "addr:192.0.2.1"},
		{"spoofed by a quote and an escape", "10.0.0.1:80", []string{`for="\, for=192.0.2.1`}, "addr:192.0.2.1"},
		{"spoofed by a quote in a line before", "10.0.0.1:80", []string{`for="`, "for=192.0.2.1"}, "addr:192.0.2.1"},
		{"IPv6", "10.0.0.1:80", []string{`for="[2001:db8:1:2::5]"`}, "addr:2001:db8:1:2::/64"},
		{"IPv6 with a port", "10.0.0.1:80", []string{`for="[2001:db8:1:2::5]:47011"`}, "addr:2001:db8:1:2::/64"},
		{"unknown", "10.0.0.1:80", []string{"for=192.0.2.1, for=unknown, for=10.0.0.2"}, "addr:10.0.0.2"},
		{"hidden", "10.0.0.1:80", []string{"for=_gazonk"}, "addr:10.0.0.1"},
		{"twice in one element", "10.0.0.1:80", []string{"for=198.51.100.7;for=192.0.2.1"}, "addr:10.0.0.1"},
		{"an element that names nobody", "10.0.0.1:80", []string{"for=192.0.2.1, proto=https"}, "addr:10.0.0.1"},
		{"a comma within quotes", "10.0.0.1:80", []string{`for=192.0.2.1;host="a, \"b"`}, "addr:192.0.2.1"},
		{"half a quoted string", "10.0.0.1:80", []string{`for="192.0.2.1`}, "addr:10.0.0.1"},
	})
}

func TestPeersOfASocketAreTrustedOnlyOnRequest(t *testing.T) {
	checkNamed(t, newClients(t, middleware.ClientConfig{TrustSockets: true}), []named{
		{"a socket", "@", []string{"198.51.100.7, 192.0.2.1"}, "addr:192.0.2.1"},
		{"a socket that says nothing", "@", nil, ""},
		{"an address", "192.0.2.1:1234", []string{"198.51.100.7"}, "addr:192.0.2.1"},
	})
}

func TestIPv6AddressesOfAPrefixAreOneClient(t *testing.T) {
	for _, tt := range []struct {
		bits int
		want string
	}{
		{0, "addr:2001:db8:1:2::/64"},
		{48, "addr:2001:db8:1::/48"},
		{128, "addr:2001:db8:1:2:3::4/128"},
	} {
		checkNamed(t, newClients(t, middleware.ClientConfig{IPv6Bits: tt.bits}), []named{
			{"IPv6", "[2001:db8:1:2:3::4]:1234", nil, tt.want},
			{"IPv4", "192.0.2.1:1234", nil, "addr:192.0.2.1"},
		})
	}
}

func TestFaultsOfAClientConfigAreNamed(t *testing.T) {
	_, err := middleware.NewClients(middleware.ClientConfig{
		Trusted:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), {}, netip.MustParsePrefix("::ffff:10.0.0.0/104")},
		Header:   "X-Real-Ip",
		IPv6Bits: 129,
	})
	if err == nil {
		t.Fatal("NewClients: no error")
	}
	for _, want := range []string{"Trusted[1]", "Trusted[2]: ::ffff:10.0.0.0/104", `Header: "X-Real-Ip"`, "IPv6Bits: 129"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("NewClients: %v, want it to name %s", err, want)
		}
	}
}

// What stands to the left of what a trusted proxy wrote changes nothing.
func FuzzNobodySpoofsAnAddress(f *testing.F) {
	for _, s := range []string{"", "192.0.2.7", `for="`, `for="\`, `for=10.0.0.1, for="[::1]`, `";,\"`, "for=10.0.0.1;", "10.0.0.1"} {
		f.Add(s)
	}
	xff, err := middleware.NewClients(middleware.ClientConfig{Trusted: proxies})
	if err != nil {
		f.Fatal(err)
	}
	fwd, err := middleware.NewClients(middleware.ClientConfig{Trusted: proxies, Header: "Forwarded"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, spoofed string) {
		const want = "addr:192.0.2.1"
		for _, field := range [][]string{{spoofed + ", 192.0.2.1, 10.0.0.2"}, {spoofed, "192.0.2.1"}} {
			if got := xff.Name("10.0.0.1:80", field); got != want {
				t.Errorf("X-Forwarded-For %q: %q, want %q", field, got, want)
			}
		}
		for _, field := range [][]string{{spoofed + `, for="192.0.2.1:80";proto=http, for=10.0.0.2`}, {spoofed, "for=192.0.2.1"}} {
			if got := fwd.Name("10.0.0.1:80", field); got != want {
				t.Errorf("Forwarded %q: %q, want %q", field, got, want)
			}
		}
	})
}
