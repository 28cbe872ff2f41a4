package main

import (
	"context"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// cpu is the CPU time that each side has used. All share the machine, so that
// their sum bounds the rate.
type cpu struct {
	daemon, redis, client time.Duration // client is this process, which asks
}

// used returns what has been used until now.
func used(ctx context.Context, d *daemon, servers *rediscluster.Cluster) (c cpu, err error) {
	if c.redis, err = servers.CPU(ctx); err != nil {
		return c, err
	}
	if c.daemon, err = ofProcess(ctx, d.command.Process.Pid); err != nil {
		return c, err
	}
	c.client, err = ofProcess(ctx, os.Getpid())
	return c, err
}

func ofProcess(ctx context.Context, pid int) (time.Duration, error) {
	p, err := process.NewProcessWithContext(ctx, int32(pid)) //nolint:gosec // no pid is larger
	if err != nil {
		return 0, err
	}
	t, err := p.TimesWithContext(ctx)
	if err != nil {
		return 0, err
	}
	return time.Duration((t.User + t.System) * float64(time.Second)), nil
}

func (c cpu) sum() time.Duration { return c.daemon + c.redis + c.client }

func (c cpu) plus(o cpu) cpu {
	return cpu{c.daemon + o.daemon, c.redis + o.redis, c.client + o.client}
}

func (c cpu) minus(o cpu) cpu {
	return cpu{c.daemon - o.daemon, c.redis - o.redis, c.client - o.client}
}
