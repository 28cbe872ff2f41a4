// Package redistest gives tests a real Redis Cluster, real faults and the
// clients to meet them with. It wraps rediscluster for package testing: what a
// test starts ends with the test, and where no server is installed the test is
// skipped with a message that says what to install.
//
// The environment says what runs the servers. [Options] that name a server
// themselves are obeyed before it.
//
//	REDISTEST_LAUNCHER  processes or containers; unset: processes, or where no
//	                    server is installed and Docker answers, containers
//	REDISTEST_SERVER    the server to run by processes: see
//	                    [rediscluster.Options]; unset: the one on PATH
//	REDISTEST_IMAGE     the image to run in containers; unset: redis:8
//	REDISTEST_CLUSTER   addresses of a cluster that runs already, for [Shared];
//	                    tests that kill nodes still start their own
//	REDISTEST           must: to have no server is a failure. Continuous
//	                    integration sets it
package redistest

import (
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// Options says what to start.
type Options = rediscluster.Options

// Start starts a cluster of the test's own, which is closed when the test
// ends. See [Shared] for one that costs nothing.
func Start(t testing.TB, opts Options) *rediscluster.Cluster {
	t.Helper()
	c, err := rediscluster.Start(t.Context(), FromEnvironment(t, opts))
	check(t, err)
	return closing.AtEnd(t, c)
}

// StartSingle starts one server without cluster mode, which is closed when the
// test ends.
func StartSingle(t testing.TB, opts Options) *rediscluster.Single {
	t.Helper()
	s, err := rediscluster.StartSingle(t.Context(), FromEnvironment(t, opts))
	check(t, err)
	return closing.AtEnd(t, s)
}

// Client returns a client of the cluster, closed when the test ends. mutate,
// where not nil, changes its options first; they begin as those of
// [rediscluster.Cluster.ClientOptions].
func Client(t testing.TB, c *rediscluster.Cluster, mutate func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	opts := c.ClientOptions()
	if mutate != nil {
		mutate(opts)
	}
	return closing.AtEnd(t, redis.NewClusterClient(opts))
}

// Prefix returns a name for the test's keys that no other test in this program
// has, nor the same test run again. It has at most 48 characters, all of them
// letters, digits or one of "_.-".
func Prefix(t testing.TB) string {
	name := notInNames.ReplaceAllString(t.Name(), "_")
	return fmt.Sprintf("%.36s-%d", name, prefixes.Add(1))
}

var (
	notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]`)
	prefixes   atomic.Int64
)

// ErrorCounts says how many error replies the nodes of a cluster sent, by the
// error's first word: "MOVED", "ASK", "TRYAGAIN", "NOSCRIPT".
type ErrorCounts map[string]int64

// Errors returns what the running nodes have counted since they started.
func Errors(t testing.TB, c *rediscluster.Cluster) ErrorCounts {
	t.Helper()
	counts, err := c.ErrorStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// Since returns what was added to an earlier count.
func (e ErrorCounts) Since(earlier ErrorCounts) ErrorCounts {
	added := ErrorCounts{}
	for name, n := range e {
		if n -= earlier[name]; n != 0 {
			added[name] = n
		}
	}
	return added
}
