// Package containers runs the servers of package rediscluster in Docker
// containers, for machines that have Docker and no redis-server, and for the
// versions that exist as images: the same cluster, formed by the same code, with
// the same verbs.
//
// A cluster's containers are on a network of their own that leads nowhere else,
// each with an address of its own that a program on the same machine dials like
// any other. So Docker must run on this machine itself: where it keeps its
// containers in a virtual machine (Docker Desktop) or in a namespace (rootless),
// [Launch] says so and starts nothing.
//
// It is a package of its own because it brings testcontainers-go and some forty
// modules behind it. They are in this module's go.mod, since its tests are what
// they are for; but as only tests and the program in cmd import this package,
// whoever imports the library compiles none of them.
package containers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/shardlimit/shardlimit/internal/deadman"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// port is the servers' usual one: each has an address of its own.
const port = "6379"

// Launch returns what starts servers from the image, for
// [rediscluster.Options].Launch. The image's entrypoint must take a server's
// flags, as those of redis and valkey do; Docker pulls it if it isn't there.
// Where Docker or the image can't be had, the error is a
// [rediscluster.ErrNoServer].
func Launch(image string) func(context.Context, rediscluster.Options) (rediscluster.Launcher, error) {
	return func(ctx context.Context, opts rediscluster.Options) (rediscluster.Launcher, error) {
		l, err := launch(ctx, image, opts.Files)
		if err != nil {
			return nil, fmt.Errorf("containers of %s: %w", image, err)
		}
		return l, nil
	}
}

// launcher makes servers that are containers on one network.
type launcher struct {
	docker *testcontainers.DockerProvider
	run    string // marks all that is made here, and begins its name
	sweep  *deadman.Switch
	image  string
	files  []string
	is     rediscluster.Version

	subnet netip.Prefix

	mu   sync.Mutex
	next netip.Addr // for the next server
}

func launch(ctx context.Context, image string, files []string) (_ *launcher, err error) {
	run := fmt.Sprintf("rediscluster-%d-%s", os.Getpid(), strings.ToLower(rand.Text()))
	l := &launcher{image: image, files: files, run: run}
	if l.docker, err = connect(); err != nil {
		return nil, fmt.Errorf("%w: %w", rediscluster.ErrNoServer, err)
	}
	l.sweep = armSweep(ctx, l.docker, l.run)
	var both sync.WaitGroup
	var versionErr, networkErr error
	both.Go(func() { versionErr = l.askVersion(ctx) })
	both.Go(func() { networkErr = l.makeNetwork(ctx) })
	both.Wait()
	if err := errors.Join(versionErr, networkErr); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *launcher) Version() rediscluster.Version { return l.is }

func (l *launcher) Server(flags rediscluster.Flags) (rediscluster.Server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ip := l.next
	if !l.subnet.Contains(ip) {
		return nil, fmt.Errorf("no address left in %v", l.subnet)
	}
	l.next = ip.Next()
	return &server{launcher: l, ip: ip, flags: flags(l.is, ip.String(), port)}, nil
}

// makeNetwork makes a network on which each server's address can be chosen, so
// that it keeps the one it has. Docker lets that be done where the subnet was
// chosen too, and knows itself which are free.
func (l *launcher) makeNetwork(ctx context.Context) error {
	const tries = 5 // another program may take what was free
	var err error
	for range tries {
		if l.subnet, err = l.freeSubnet(ctx); err != nil {
			return err
		}
		gateway := l.subnet.Addr().Next()
		err = l.createNetwork(ctx, &network.IPAM{Config: []network.IPAMConfig{{Subnet: l.subnet, Gateway: gateway}}})
		if err == nil {
			l.next = gateway.Next()
			return reachable(gateway)
		}
	}
	return err
}

// freeSubnet returns the subnet of a network that it makes and removes.
func (l *launcher) freeSubnet(ctx context.Context) (netip.Prefix, error) {
	if err := l.createNetwork(ctx, nil); err != nil {
		return netip.Prefix{}, err
	}
	var made client.NetworkInspectResult
	err := l.ask(func(docker client.APIClient) (err error) {
		made, err = docker.NetworkInspect(ctx, l.run, client.NetworkInspectOptions{})
		return err
	})
	if err := errors.Join(err, l.removeNetworks(ctx)); err != nil {
		return netip.Prefix{}, err
	}
	for _, c := range made.Network.IPAM.Config {
		if c.Subnet.Addr().Is4() {
			return c.Subnet.Masked(), nil
		}
	}
	return netip.Prefix{}, errors.New("docker's networks have no IPv4 addresses")
}

// createNetwork makes the network, which bears the run's name.
func (l *launcher) createNetwork(ctx context.Context, ipam *network.IPAM) error {
	return l.ask(func(docker client.APIClient) error {
		opts := client.NetworkCreateOptions{Driver: "bridge", Internal: true, IPAM: ipam, Labels: l.labels()}
		_, err := docker.NetworkCreate(ctx, l.run, opts)
		return err
	})
}

// reachable reports whether this machine is itself on the network whose gateway
// it would be.
func reachable(gateway netip.Addr) error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.String() == gateway.String() {
			return nil
		}
	}
	return fmt.Errorf("%w: docker's containers can't be reached by address (Docker Desktop? rootless?)",
		rediscluster.ErrNoServer)
}
