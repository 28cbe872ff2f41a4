package shardlimit_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/crowd"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// How long the tests ask that start processes, by how many and by which seed: make
// leases sets more.
var (
	crowdFor       = flag.Duration("crowd.for", 3*time.Second, "how long instances ask for hot keys")
	crowdProcesses = flag.Int("crowd.processes", 4, "how many instances there are")
	crowdSeed      = flag.Uint64("crowd.seed", 0, "what they do by chance; 0: by chance too")
)

// gathering is instances that ask for the same keys.
type gathering struct {
	t       *testing.T
	order   crowd.Order
	dir     string
	files   []string
	running []*crowd.Process
}

// gather returns a gathering on the cluster, of no instance yet.
func gather(t *testing.T, c *rediscluster.Cluster, span time.Duration, keys ...crowd.Key) *gathering {
	t.Helper()
	seed := *crowdSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return &gathering{t: t, dir: t.TempDir(), order: crowd.Order{
		Addrs: c.Addrs(), Prefix: redistest.Prefix(t), Timeout: patient,
		Keys: keys, Start: time.Now(), For: span, Seed: seed,
	}}
}

// start starts an instance, whose order is as adapt leaves it.
func (g *gathering) start(adapt func(*crowd.Order)) *crowd.Process {
	g.t.Helper()
	o := g.order
	o.Keys = slices.Clone(o.Keys)
	o.Seed += uint64(len(g.files))
	o.Log = filepath.Join(g.dir, strconv.Itoa(len(g.files)))
	if adapt != nil {
		adapt(&o)
	}
	if err := os.WriteFile(o.Log, nil, 0o600); err != nil { // it may be killed before it does anything
		g.t.Fatal(err)
	}
	g.files = append(g.files, o.Log)
	p, err := crowd.Start(g.t.Context(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// startAll starts n instances.
func (g *gathering) startAll(n int, adapt func(*crowd.Order)) {
	g.t.Helper()
	for range n {
		g.running = append(g.running, g.start(adapt))
	}
}

// wait returns what those report that startAll started, once they have ended. None
// may have met an error.
func (g *gathering) wait() []crowd.Report {
	g.t.Helper()
	var reports []crowd.Report
	for _, p := range g.running {
		reports = append(reports, g.report(p))
	}
	return reports
}

func (g *gathering) report(p *crowd.Process) crowd.Report {
	g.t.Helper()
	r, err := p.Wait()
	if err != nil {
		g.t.Fatal(err)
	}
	if r.Counters.Errors > 0 {
		g.t.Errorf("an instance met %d errors: %s", r.Counters.Errors, strings.Join(r.Errors, "; "))
	}
	return r
}

// accounts returns what all of them were answered.
func (g *gathering) accounts() []crowd.Account { return g.of(g.files...) }

// of returns what those were answered who wrote the files.
func (g *gathering) of(files ...string) []crowd.Account {
	g.t.Helper()
	accounts, err := crowd.Read(g.order, files...)
	if err != nil {
		g.t.Fatal(err)
	}
	return accounts
}

// hotKeys returns a key a limit, all to be asked for at a rate.
func hotKeys(rate float64, leases shardlimit.LeaseMode, limits ...shardlimit.Limit) []crowd.Key {
	var keys []crowd.Key
	for _, l := range limits {
		name := l.Algorithm.String()
		keys = append(keys, crowd.Key{Policy: name, Subject: name, Limit: l, Leases: leases, Rate: rate})
	}
	return keys
}

// each returns a limit for each algorithm.
func each(rate int64, period time.Duration, of []shardlimit.Algorithm) []shardlimit.Limit {
	var limits []shardlimit.Limit
	for _, a := range of {
		limits = append(limits, shardlimit.Per(rate, period).WithAlgorithm(a))
	}
	return limits
}

// leasable are the algorithms whose units are lent.
var leasable = []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.SlidingWindow, shardlimit.FixedWindow}

// spacious is a period of some hours of whose windows now is near neither edge:
// of 1e9 units in it leases are had, and none of them decays.
var spacious = func() time.Duration {
	for period := 20 * time.Hour; ; period -= time.Hour {
		if in := time.Duration(time.Now().UnixNano()) % period; in > period/8 && in < period-period/8 {
			return period
		}
	}
}()

// deep is a bucket of plenty, whose units are lent as it refills fast enough.
var deep = shardlimit.PerSecond(100_000).WithBurst(plenty)

// plenty is so many units that a test never reaches them.
const plenty = 1_000_000_000
