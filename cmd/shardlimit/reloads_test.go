package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// crowd is clients that ask a daemon about one subject, and what they were told.
type crowd struct {
	d    *daemon
	stop chan struct{}
	all  sync.WaitGroup

	mu        sync.Mutex
	units     map[string]int64 // granted, by policy
	decisions map[string]int64 // by policy and source
	leased    int64            // units that leases granted
}

func newCrowd(d *daemon) *crowd {
	return &crowd{d: d, units: map[string]int64{}, decisions: map[string]int64{}}
}

// ask asks once.
func (l *crowd) ask(policy, more string) error {
	_, body, err := l.d.try("POST", l.d.public+"/v1/check", fmt.Sprintf(`{"policy":%q,"subject":"a"%s}`, policy, more))
	var r struct {
		Granted int64
		Source  string
	}
	if err := errors.Join(err, json.Unmarshal([]byte(body), &r)); err != nil || r.Source == "" || r.Source == "fallback" {
		return fmt.Errorf("check of %s: %s (%w): want a decision", policy, body, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.units[policy] += r.Granted
	l.decisions[policy+" "+r.Source]++
	if r.Source == "lease" {
		l.leased += r.Granted
	}
	return nil
}

// start has clients ask until end is called.
func (l *crowd) start(clients int, policies ...string) {
	l.stop = make(chan struct{})
	for range clients {
		l.all.Go(func() {
			for {
				for _, policy := range policies {
					if err := l.ask(policy, ""); err != nil {
						l.d.t.Error(err)
						return
					}
				}
				select {
				case <-l.stop:
					return
				default:
				}
			}
		})
	}
}

func (l *crowd) end() {
	close(l.stop)
	l.all.Wait()
}

// told returns how many decisions of a policy a source has made.
func (l *crowd) told(policy, source string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decisions[policy+" "+source]
}

// census counts what a daemon has open: goroutines; files, which sockets are, but for
// those to Redis; and its connections by node, as the nodes list them.
type census struct {
	goroutines, files int
	connections       map[string][]string
}

// census is of a daemon that clients have no connections to, but the one that asks.
func (d *daemon) census(c *rediscluster.Cluster, user string) (now census) {
	d.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	text := d.wants(200, "GET", d.admin+"/debug/pprof/goroutine?debug=1", "")
	if _, err := fmt.Sscanf(text, "goroutine profile: total %d", &now.goroutines); err != nil {
		d.t.Fatal(err)
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.command.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	now.files, now.connections = len(files), map[string][]string{}
	of := regexp.MustCompile(`(?m)^id=(\d+) .* user=` + user + ` `)
	for _, n := range c.Nodes() {
		list, err := n.Client().ClientList(d.t.Context()).Result()
		if err != nil {
			d.t.Fatal(err)
		}
		for _, m := range of.FindAllStringSubmatch(list, -1) {
			now.connections[n.Addr()] = append(now.connections[n.Addr()], m[1])
			now.files--
		}
	}
	return now
}

// rest waits until the daemon has no more open than before, and returns what it has. What has leaked is
// there for ever: a minute is for what ends late.
func (d *daemon) rest(before census, c *rediscluster.Cluster, user string) census {
	d.t.Helper()
	over := time.After(time.Minute)
	for {
		now := d.census(c, user)
		if now.goroutines <= before.goroutines && now.files <= before.files {
			return now
		}
		select {
		case <-over:
			d.t.Errorf("%+v, a minute after the load; %+v before\n%s", now, before, d.wants(200, "GET", d.admin+"/debug/pprof/goroutine?debug=1", ""))
			return now
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// userOf makes a user of the test's own on each node, whose connections are told from others'.
func userOf(t *testing.T, c *rediscluster.Cluster) (user, password string) {
	t.Helper()
	user, password = strings.ToLower(redistest.Prefix(t)), "s3cr3t"
	for _, n := range c.Nodes() {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", user, "on", ">"+password, "~*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	return user, password
}

// counts is what a daemon says of its leases.
type counts struct {
	Lent      int64
	GivenBack int64 `json:"given_back"`
	Forgotten int64
}

// settled waits until no lease is out and each unit that was lent is spent, given back or forgotten, and
// returns how many that are. Where one is missing it is so for ever: a minute is for what ends late.
func (l *crowd) settled() counts {
	d := l.d
	d.t.Helper()
	for over := time.After(time.Minute); ; {
		var in struct {
			Limiter struct {
				HotKeys struct {
					Leases int
					Counts counts
				} `json:"hot_keys"`
			}
		}
		if err := json.Unmarshal([]byte(d.wants(200, "GET", d.admin+"/v1/inspect", "")), &in); err != nil {
			d.t.Fatal(err)
		}
		hot := in.Limiter.HotKeys
		if c := hot.Counts; hot.Leases == 0 && c.Lent == l.leased+c.GivenBack+c.Forgotten {
			return c
		}
		select {
		case <-over:
			d.t.Errorf("%+v a minute after the load, and %d units were spent of leases", hot, l.leased)
			return hot.Counts
		case <-time.After(20 * time.Millisecond):
		}
	}
}

const (
	exact    = 2000          // of policy counted, which is used up
	plenty   = 1_000_000_000 // of the leased ones, which are not
	nReloads = 100
	clients  = 4
)

// reloaded is the nth configuration: the policies counted and leased stay as they are, raised has another limit
// each time, and so has all around them.
func reloaded(n int) string {
	return fmt.Sprintf(`
policies:
  - {name: counted, limits: [%d/366d], leases: off}
  - {name: leased, limits: [%d/7d fixed_window]}
  - {name: raised, limits: [%d/7d fixed_window]}
  - {name: other, limits: [%d/s], on_failure: closed}
overrides:
  - {policy: counted, subjects: ["nobody:%d", "no*body"], limits: [%d/366d]}
`, exact, plenty, plenty-1000+n, n+1, n, n+1)
}

// TestReloadsUnderLoadLoseAndGiveNothing: with leases and without, every unit that is used in Redis is one that
// passed or one whose lease could not be settled, and nothing that a daemon has open becomes more.
func TestReloadsUnderLoadLoseAndGiveNothing(t *testing.T) {
	cluster := redistest.Shared(t)
	user, password := userOf(t, cluster)
	path := testfile.New(t, "limits.yaml", reloaded(0))
	flags := []string{"--redis=" + strings.Join(cluster.Addrs(), ","), "--redis-user=" + user, "--prefix=" + redistest.Prefix(t), patient}
	d := startDaemon(t, []string{"SHARDLIMIT_REDIS_PASSWORD=" + password}, append(flags, "--config="+path)...)

	l := newCrowd(d)
	l.start(clients, "counted", "leased", "raised")
	for subject := range 100 { // at all nodes
		d.wants(200, "POST", d.public+"/v1/check", fmt.Sprintf(`{"policy":"other","subject":"%d"}`, subject))
	}
	for l.told("leased", "lease") < 200 || l.told("raised", "lease") < 200 {
		<-time.After(10 * time.Millisecond)
	}
	l.end()
	l.settled()
	before := d.census(cluster, user)
	before = d.rest(before, cluster, user) // which may be less

	l.start(clients, "counted", "leased", "raised")
	for n := 1; n <= nReloads; n++ {
		replace(t, path, reloaded(n))
		d.hangup()
		for line := d.await("configuration reloaded"); line.Generation <= int64(n); {
			line = d.await("configuration reloaded")
		}
	}
	l.end()
	c := l.settled()
	after := d.rest(before, cluster, user)
	holdConnections(t, before, after)

	for was := int64(-1); was != l.units["counted"]; { // to the end of it
		was = l.units["counted"]
		if err := l.ask("counted", `,"cost":50,"mode":"at_most"`); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.units["counted"]; got != exact {
		t.Errorf("%d of %d units were admitted over %d reloads", got, exact, nReloads)
	}
	used := plenty - remaining(t, d.wants(200, "GET", d.admin+"/v1/inspect?policy=leased&subject=a", ""))
	used += plenty - 1000 + nReloads - remaining(t, d.wants(200, "GET", d.admin+"/v1/inspect?policy=raised&subject=a", ""))
	if passed := l.units["leased"] + l.units["raised"]; used != passed+c.Forgotten {
		t.Errorf("%d used, %d passed, %d of them by leases: %+v; want each unit that is used passed or forgotten", used, passed, l.leased, c)
	}
	l.holdMetrics(d)
	t.Logf("%d reloads; %v; %+v; before %+v, after %+v", nReloads, l.decisions, c, before, after)
}

// holdConnections: those to Redis stay, and there are no more than calls can be under way at once.
func holdConnections(t *testing.T, before, after census) {
	t.Helper()
	const most = clients + 2 + 1 // each client's call, one for each lease, and the topology's
	for node, ids := range before.connections {
		for _, id := range ids {
			if !slices.Contains(after.connections[node], id) {
				t.Errorf("connection %s to %s has ended: %+v", id, node, after)
			}
		}
	}
	for node, ids := range after.connections {
		if len(ids) > most || len(before.connections[node]) == 0 {
			t.Errorf("%d connections to %s, want some before and at most %d: %+v", len(ids), node, most, before)
		}
	}
}

// holdMetrics: the daemon's counters say what its clients were told.
func (l *crowd) holdMetrics(d *daemon) {
	d.t.Helper()
	families := d.scrape()
	var here, total float64
	for _, policy := range []string{"counted", "leased", "raised"} {
		for _, source := range []string{"redis", "lease", "denial"} {
			told := float64(l.told(policy, source))
			if got := sum(families["shardlimit_decisions_total"], "policy="+policy, "source="+source); got != told {
				d.t.Errorf("%v decisions of %s by %s are counted, and clients were told %v", got, policy, source, told)
			}
			total += told
			if source != "redis" {
				here += told
			}
		}
		if got := sum(families["shardlimit_granted_units_total"], "policy="+policy); got != float64(l.units[policy]) {
			d.t.Errorf("%v granted units of %s are counted, and clients got %d", got, policy, l.units[policy])
		}
	}
	if all := families["shardlimit_decisions_total"]; here == 0 || sum(all, "source=lease")+sum(all, "source=denial") != here {
		d.t.Errorf("%v of %v decisions were made in the process; the counters say otherwise: %v", here, total, all)
	}
}
