package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/rediscluster/containers"
)

// FromEnvironment returns opts with what the environment says about servers
// filled in, as [Start] does it. Servers that opts name themselves are left so.
func FromEnvironment(t testing.TB, opts Options) Options {
	t.Helper()
	if opts.Server != "" || opts.Launch != nil {
		return opts
	}
	opts.Server = os.Getenv("REDISTEST_SERVER")
	image := cmp.Or(os.Getenv("REDISTEST_IMAGE"), containers.Image)
	switch launcher := os.Getenv("REDISTEST_LAUNCHER"); launcher {
	case "processes":
	case "containers":
		opts.Launch = containers.Launch(image)
	case "":
		chosen, fellBack := containers.WhereNoServer(opts, image)
		if fellBack {
			suite.announce.Do(func() {
				fmt.Fprintln(os.Stderr, "redistest: no redis-server here: the tests run in containers of "+image)
			})
		}
		return chosen
	default:
		t.Fatalf("REDISTEST_LAUNCHER=%q: want processes or containers", launcher)
	}
	return opts
}

// check ends the test if err isn't nil: skipped if it's for want of a server.
func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, rediscluster.ErrNoServer) && os.Getenv("REDISTEST") != "must":
		suite.skipped.Store(true)
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// Cut ends the test if err isn't nil, which is of a verb that cuts a node off the
// network: skipped if it's that this can't be done here, unless REDISTEST=must; and
// if what runs the servers has no such verb, as containers, which aren't cut off
// from one side alone.
func Cut(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, rediscluster.ErrCannotCut) && (os.Getenv("REDISTEST") != "must" || errors.Is(err, rediscluster.ErrOneSide)) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
