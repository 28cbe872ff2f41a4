// Package stage sets up where a demo plays: a Redis Cluster of its own, one
// that runs already, or this process alone. It says which shard serves a slot,
// and turns a cluster of its own upside down on demand.
package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// Options says where to play. The zero value is a cluster of the demo's own,
// run by the installed server; in containers where none is, but Docker.
type Options struct {
	Server   string   // a binary or a folder of one
	Image    string   // of a server, to run in containers
	Redis    []string // host:port of nodes that run already
	Embedded bool     // in this process, without Redis
	Replicas int      // of each shard, where the demo starts a cluster
}

// Plan returns what Open is about to do, in a few words.
func (o Options) Plan() string {
	switch {
	case o.Embedded:
		return "Preparing the store in this process"
	case len(o.Redis) > 0:
		return "Connecting to " + o.Redis[0]
	case o.Replicas > 0:
		return fmt.Sprintf("Starting 3 shards of 1+%d nodes", o.Replicas)
	default:
		return "Starting 3 shards"
	}
}

// Stage is where a demo plays.
type Stage struct {
	Limiter *shardlimit.Limiter
	Title   string // what it is
	Note    string // why it isn't what was wished for; "": it is

	opts    Options
	cluster *rediscluster.Cluster // nil: not ours to turn upside down
	owners  owners
	moving  atomic.Pointer[[2]int] // the shards that slots move between
	calls   atomic.Int64           // that were sent to Redis
	close   []func() error         // the last first

	// mu guards what was done.
	mu   sync.Mutex
	done Done
}

// Open sets the stage up. Where no server was named and none is installed, it's
// this process, and Note says so. The caller closes it.
func Open(ctx context.Context, o Options) (*Stage, error) {
	switch {
	case o.Embedded:
		return openEmbedded("")
	case len(o.Redis) > 0:
		return openGiven(ctx, o.Redis)
	}
	s, err := openOwn(ctx, o)
	if errors.Is(err, rediscluster.ErrNoServer) {
		return openEmbedded(noServer)
	}
	return s, err
}

const noServer = "No redis-server or valkey-server here, so this is the embedded store: one process, no shards, no moving " +
	"slots. For the real thing install one (Debian, Ubuntu: apt install redis-server; macOS: brew install redis), " +
	"start Docker, or name one with --server, --image or --redis."

func openEmbedded(note string) (*Stage, error) {
	l, err := shardlimit.NewLocal(shardlimit.Config{Prefix: newPrefix()})
	if err != nil {
		return nil, err
	}
	return &Stage{Limiter: l, Title: "the embedded store", Note: note, close: []func() error{l.Close}}, nil
}

// newPrefix returns a prefix that no earlier run had, so that nothing is used
// when the demo begins.
func newPrefix() string { return fmt.Sprintf("demo-%08x", rand.Uint32()) }

// Shards returns how many shards there are; 0 without Redis.
func (s *Stage) Shards() int { return len(s.owners.all()) }

// Shard returns the index of the shard that serves a slot, by what Refresh last
// saw; -1 without Redis.
func (s *Stage) Shard(slot uint16) int { return s.owners.of(slot) }

// Lends reports whether the limiter decides some by itself: whether there is a
// Redis that it spares.
func (s *Stage) Lends() bool { return s.Shards() > 0 }

// Refresh looks up who serves which slots.
func (s *Stage) Refresh(ctx context.Context) error { return s.owners.refresh(ctx) }

// ErrorReplies returns how many error replies the servers have sent so far, by
// their first word; nil where the servers aren't the demo's alone. Those that
// were killed took their counts along.
func (s *Stage) ErrorReplies(ctx context.Context) (map[string]int64, error) {
	if s.cluster == nil {
		return nil, nil
	}
	return s.cluster.ErrorStats(ctx)
}

// Calls returns how many calls the limiter has sent to Redis so far, those for
// leases and those that were sent to another node after a redirect included.
func (s *Stage) Calls() int64 { return s.calls.Load() }

// Close ends all that Open started.
func (s *Stage) Close() error {
	var errs []error
	for _, end := range slices.Backward(s.close) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// abandon closes a stage that didn't come to stand because of err.
func (s *Stage) abandon(err error) (*Stage, error) { return nil, errors.Join(err, s.Close()) }
