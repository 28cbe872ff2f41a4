package containers

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/shardlimit/shardlimit/internal/deadman"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// label is on all that is made here; its value tells whose it is.
const label = "com.github.shardlimit.rediscluster"

func (l *launcher) labels() map[string]string { return map[string]string{label: l.run} }

// settle tells testcontainers, once for this program and before it is first
// used, what it asks nobody else:
//   - to start no container that removes the others: here [deadman] does that,
//     which needs no second image;
//   - that a container's host is this one: inside a container it would guess;
//   - to say nothing of what it does.
var settle = sync.OnceValue(func() error {
	tclog.SetDefault(tclog.NewNoopLogger())
	return errors.Join(
		setIfUnset("TESTCONTAINERS_RYUK_DISABLED", "true"),
		setIfUnset("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1"),
	)
})

func setIfUnset(name, value string) error {
	if os.Getenv(name) != "" {
		return nil
	}
	return os.Setenv(name, value)
}

// connect returns a connection to Docker, which answers.
func connect() (*testcontainers.DockerProvider, error) {
	if err := settle(); err != nil {
		return nil, err
	}
	return testcontainers.NewDockerProvider()
}

// ask calls do and lets go of the connections that it used: testcontainers does
// so after each of its own calls, and a test that looks for goroutines left over
// should find none of Docker's.
func (l *launcher) ask(do func(docker client.APIClient) error) error {
	return errors.Join(do(l.docker.Client()), l.docker.Close())
}

// askVersion runs the image's server with --version.
func (l *launcher) askVersion(ctx context.Context) error {
	c, err := l.create(ctx, "version", testcontainers.ContainerRequest{Cmd: []string{"--version"}})
	if err != nil {
		return errors.Join(rediscluster.ErrNoServer, err)
	}
	ended := l.docker.Client().ContainerWait(ctx, c.GetContainerID(),
		client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if err := c.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ended.Result:
	case err := <-ended.Error:
		return err
	}
	text, err := logs(ctx, c)
	if err != nil {
		return err
	}
	l.is, err = findVersion(text)
	return err
}

// findVersion returns the version in what an image's server and its entrypoint
// print.
func findVersion(text string) (v rediscluster.Version, err error) {
	for line := range strings.Lines(text) {
		if v, err = rediscluster.ParseVersion(line); err == nil {
			return v, nil
		}
	}
	return rediscluster.ParseVersion(text)
}

// create creates a container of the launcher's image.
func (l *launcher) create(ctx context.Context, name string, req testcontainers.ContainerRequest) (testcontainers.Container, error) {
	req.Image, req.Name, req.Labels = l.image, l.run+"-"+name, l.labels()
	return l.docker.CreateContainer(ctx, req)
}

func logs(ctx context.Context, c testcontainers.Container) (string, error) {
	r, err := c.Logs(ctx)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}

// Close removes what carries the launcher's label: also what a call that was
// cancelled may have left.
func (l *launcher) Close() error {
	ctx := context.Background()
	err := l.removeContainers(ctx)
	err = errors.Join(err, l.removeNetworks(ctx), l.docker.Close())
	if l.sweep == nil {
		return err
	}
	if err != nil {
		return errors.Join(err, l.sweep.Release())
	}
	return l.sweep.Disarm()
}

func (l *launcher) mine() client.Filters {
	return client.Filters{}.Add("label", label+"="+l.run)
}

func (l *launcher) removeContainers(ctx context.Context) error {
	found, err := l.docker.Client().ContainerList(ctx, client.ContainerListOptions{All: true, Filters: l.mine()})
	if err != nil {
		return err
	}
	errs := make([]error, len(found.Items))
	var all sync.WaitGroup
	for i, c := range found.Items {
		all.Go(func() { errs[i] = l.remove(ctx, c.ID) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (l *launcher) remove(ctx context.Context, id string) error {
	_, err := l.docker.Client().ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

func (l *launcher) removeNetworks(ctx context.Context) error {
	found, err := l.docker.Client().NetworkList(ctx, client.NetworkListOptions{Filters: l.mine()})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range found.Items {
		_, err := l.docker.Client().NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sweep does the same as Close for a program that ended without it.
const sweep = `
containers=$(docker ps -aq --filter "label=$1") && [ -z "$containers" ] || docker rm -fv $containers
networks=$(docker network ls -q --filter "label=$1") && [ -z "$networks" ] || docker network rm $networks
`

// armSweep returns nil where there is no docker program to sweep with: a test
// that panics or runs out of time then leaves its containers, and they their
// label.
func armSweep(ctx context.Context, docker *testcontainers.DockerProvider, run string) *deadman.Switch {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil
	}
	s, err := deadman.Arm(ctx, `export DOCKER_HOST="$2"`+sweep, label+"="+run, docker.Client().DaemonHost())
	if err != nil {
		return nil
	}
	return s
}
