package containers

import (
	"errors"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// Image is what runs where nobody says otherwise.
const Image = "redis:8"

// WhereNoServer returns opts, with containers of the image to run the servers
// where the server that opts name isn't installed but Docker answers. It reports
// whether it did that, so that the caller can say so.
func WhereNoServer(opts rediscluster.Options, image string) (rediscluster.Options, bool) {
	if _, err := rediscluster.FindServer(opts.Server); opts.Launch != nil || !errors.Is(err, rediscluster.ErrNoServer) {
		return opts, false
	}
	docker, err := connect()
	if err != nil {
		return opts, false
	}
	_ = docker.Close() // nothing was asked of it yet
	opts.Launch = Launch(image)
	return opts, true
}
