package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// server is one server as a container, which is created by the first start and
// kept from run to run, with the folder that it writes to.
type server struct {
	launcher *launcher
	ip       netip.Addr
	flags    []string

	mu        sync.Mutex
	container testcontainers.Container // nil before the first start
	cut       bool
}

func (s *server) Addr() string { return net.JoinHostPort(s.ip.String(), port) }

// PID is what each container's first process has, which is the server.
func (s *server) PID() int { return 1 }

func (s *server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.container == nil {
		c, err := s.launcher.create(ctx, s.ip.String(), s.request())
		if err != nil {
			return err
		}
		s.container = c
	}
	return s.container.Start(ctx)
}

func (s *server) request() testcontainers.ContainerRequest {
	req := testcontainers.ContainerRequest{
		Cmd:      s.flags,
		Networks: []string{s.launcher.run},
		EndpointSettingsModifier: func(settings map[string]*network.EndpointSettings) {
			settings[s.launcher.run] = s.endpoint()
		},
	}
	for _, path := range s.launcher.files {
		const mode = 0o444 // the server has a user of its own
		req.Files = append(req.Files, testcontainers.ContainerFile{HostFilePath: path, ContainerFilePath: path, FileMode: mode})
	}
	return req
}

// endpoint is the server's place on the network.
func (s *server) endpoint() *network.EndpointSettings {
	return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: s.ip}}
}

func (s *server) Exited(ctx context.Context) error {
	c, err := s.created()
	if err != nil {
		return err
	}
	state, err := c.State(ctx)
	if err != nil {
		return err
	}
	if state.Running {
		return nil
	}
	text, err := logs(ctx, c)
	const most = 1000 // bytes
	text = text[max(0, len(text)-most):]
	return errors.Join(fmt.Errorf("%s ended (status %d); its log: %s", s.Addr(), state.ExitCode, text), err)
}

func (s *server) created() (testcontainers.Container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.container == nil {
		return nil, fmt.Errorf("%s was never started", s.Addr())
	}
	return s.container, nil
}

func (s *server) Kill(ctx context.Context) error {
	c, err := s.created()
	if err != nil {
		return nil //nolint:nilerr // what was never started is gone
	}
	err = s.launcher.ask(func(docker client.APIClient) error {
		_, err := docker.ContainerKill(ctx, c.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
	if errdefs.IsConflict(err) { // it doesn't run
		return nil
	}
	return err
}

func (s *server) Hang(ctx context.Context) error {
	c, err := s.created()
	if err != nil {
		return err
	}
	return s.launcher.ask(func(docker client.APIClient) error {
		_, err := docker.ContainerPause(ctx, c.GetContainerID(), client.ContainerPauseOptions{})
		return err
	})
}

func (s *server) Resume(ctx context.Context) error {
	c, err := s.created()
	if err != nil {
		return err
	}
	return s.launcher.ask(func(docker client.APIClient) error {
		_, err := docker.ContainerUnpause(ctx, c.GetContainerID(), client.ContainerUnpauseOptions{})
		return err
	})
}

// Cut disconnects the container, which has one network for clients and peers.
func (s *server) Cut(ctx context.Context, from rediscluster.Side) error {
	if from != rediscluster.Everybody {
		return rediscluster.ErrOneSide
	}
	if err := s.Exited(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return nil
	}
	err := s.launcher.ask(func(docker client.APIClient) error {
		opts := client.NetworkDisconnectOptions{Container: s.container.GetContainerID()}
		_, err := docker.NetworkDisconnect(ctx, s.launcher.run, opts)
		return err
	})
	s.cut = err == nil
	return err
}

func (s *server) Heal(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cut {
		return nil
	}
	err := s.launcher.ask(func(docker client.APIClient) error {
		opts := client.NetworkConnectOptions{Container: s.container.GetContainerID(), EndpointConfig: s.endpoint()}
		_, err := docker.NetworkConnect(ctx, s.launcher.run, opts)
		return err
	})
	s.cut = err != nil
	return err
}
