package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// suite is what the tests of one program have in common. It's state of the
// package because TestMain and the tests meet nowhere else.
var suite struct {
	skipped  atomic.Bool // a test was, for want of a server
	announce sync.Once   // that containers are what is used

	mu      sync.Mutex
	running bool // within Main
	cluster *rediscluster.Cluster
	err     error // why there is no cluster
}

// Main runs a package's tests, for its TestMain, and exits. It closes the
// cluster of [Shared], and where tests were skipped for want of a server its
// last line on standard error says what to install.
func Main(m *testing.M) {
	redis.SetLogger(quiet{})
	suite.mu.Lock()
	suite.running = true
	suite.mu.Unlock()

	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if suite.skipped.Load() {
		fmt.Fprintln(os.Stderr, "redistest: tests were skipped:", rediscluster.ErrNoServer)
	}
	os.Exit(code)
}

// quiet drops the lines that the client prints by itself, one for each dial
// that fails: tests make nodes fail, and see the errors that come back.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// Shared returns the cluster that the package's tests share: three primaries
// without replicas, started for the first test that asks, or the cluster that
// REDISTEST_CLUSTER names. The package's TestMain must call [Main].
//
// Nothing is flushed between tests: each names its keys by [Prefix]. A test may
// move slots and flush scripts, so none can count on where a slot is. Whoever
// kills, hangs or adds nodes starts a cluster of its own.
func Shared(t testing.TB) *rediscluster.Cluster {
	t.Helper()
	c, err := sharedCluster(t)
	check(t, err)
	return c
}

func sharedCluster(t testing.TB) (*rediscluster.Cluster, error) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if !suite.running {
		t.Fatal("redistest: Shared needs a TestMain that calls redistest.Main")
	}
	if suite.cluster == nil && suite.err == nil {
		suite.cluster, suite.err = startShared(t)
	}
	return suite.cluster, suite.err
}

func startShared(t testing.TB) (*rediscluster.Cluster, error) {
	if addrs := os.Getenv("REDISTEST_CLUSTER"); addrs != "" {
		return rediscluster.Attach(t.Context(), strings.Split(addrs, ",")...)
	}
	c, err := rediscluster.Start(t.Context(), FromEnvironment(t, Options{}))
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes() {
		if err := n.Client().ConfigSet(t.Context(), "cluster-node-timeout", patience).Err(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// patience is how long, in ms, a node of the shared cluster may be silent:
// nobody takes one away, but a busy machine may not let it speak. A cluster that
// starts with it may take as long to stand.
const patience = "15000"

func closeShared() error {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.cluster == nil {
		return nil
	}
	return suite.cluster.Close()
}
