package main

import (
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
)

const limitsForCaddy = `
authorize: {subject_headers: [X-Api-Key, X-Real-IP]}
policies: [{name: api, limits: [3/h], on_failure: closed}]
`

// listenerOfCaddy is what Caddy says once it has a port.
var listenerOfCaddy = regexp.MustCompile(`"actual_address":"(127\.0\.0\.1:\d+)"`)

// startCaddy starts Caddy on deploy/caddy/Caddyfile, at a port of its own.
func startCaddy(t *testing.T, app, daemon string, replace ...string) *proxied {
	t.Helper()
	site := strings.NewReplacer(append([]string{
		":80 {", "http://:0 {\n\tbind 127.0.0.1",
		"127.0.0.1:3000", strings.TrimPrefix(app, "http://"),
		"127.0.0.1:8080", strings.TrimPrefix(daemon, "http://"),
	}, replace...)...).Replace(example(t, "caddy/Caddyfile"))
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // where it keeps what it was told,
	t.Setenv("XDG_DATA_HOME", t.TempDir())   // and certificates
	conf := testfile.New(t, "Caddyfile", "{\n\tadmin off\n}\n"+site)
	caddy := startOther(t, "caddy", "run", "--config="+conf, "--adapter=caddyfile")
	var address string
	caddy.until("it listened", func() bool {
		if m := listenerOfCaddy.FindStringSubmatch(caddy.said()); m != nil {
			address = m[1]
		}
		return address != "" && strings.Contains(caddy.said(), "serving initial configuration")
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &proxied{t, "http://" + address, &http.Client{Transport: transport}}
}

// from returns the proxy as a client of an address reaches it.
func (p *proxied) from(address string) *proxied {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &proxied{p.t, p.url, &http.Client{Transport: transport}}
}

// TestProxiesRefuseClientsOfAShardThatIsAwayAndNobodyElse: a client is its address,
// whose shard is known from it.
func TestProxiesRefuseClientsOfAShardThatIsAwayAndNobodyElse(t *testing.T) {
	needs(t, "caddy")
	cluster := redistest.Start(t, redistest.Options{Args: []string{"--cluster-require-full-coverage", "no"}})
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--timeout=5s", "--config="+testfile.New(t, "limits.yaml", limitsForCaddy))
	app, _ := startApp(t)
	caddy := startCaddy(t, app, d.public, "dial_timeout 100ms", "dial_timeout 30s", "response_header_timeout 500ms", "response_header_timeout 30s")

	clients := map[string]*proxied{} // one for each primary
	for i := 1; len(clients) < len(cluster.Nodes()); i++ {
		address := "127.0.1." + strconv.Itoa(i)
		owner, err := cluster.Owner(t.Context(), int(keys.Slot("{"+address+"}")))
		if err != nil {
			t.Fatal(err)
		}
		clients[owner.Addr()] = caddy.from(address)
	}
	wants := func(shard string, status int) {
		t.Helper()
		if got, _ := clients[shard].get(); got.StatusCode != status {
			t.Errorf("a client of %s: %s, want %d", shard, got.Status, status)
		}
	}
	for shard := range clients {
		wants(shard, http.StatusOK)
	}
	victim := cluster.Nodes()[1]
	if err := victim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants(victim.Addr(), http.StatusServiceUnavailable)
	delete(clients, victim.Addr())
	for shard := range clients {
		wants(shard, http.StatusOK)
	}
}
