package containers

import (
	"errors"
	"os/exec"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// Image is what runs where nobody says otherwise.
const Image = "redis:8"

// WhereNoServer returns opts, with containers of the image to run the servers
// where the server that opts name isn't installed but Docker is, and answers. It
// reports whether it did that, so that the caller can say so.
func WhereNoServer(opts rediscluster.Options, image string) (rediscluster.Options, bool) {
	if _, err := rediscluster.FindServer(opts.Server); !errors.Is(err, rediscluster.ErrNoServer) {
		return opts, false
	}
	if _, err := exec.LookPath("docker"); err != nil {
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
