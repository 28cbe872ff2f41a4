package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/report"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
)

// demoCommand is "shardlimit demo".
type demoCommand struct {
	Duration time.Duration `default:"15s" help:"How long to drive traffic."`
	Quick    bool          `help:"About five seconds in all, as for CI: the duration is 2s, and fewer slots move."`
	JSON     bool          `name:"json" help:"One JSON object a line: the scene, events, a tick each second, and the ledger."`

	Server   string   `xor:"stage" placeholder:"PATH" help:"Run this server: a redis-server or valkey-server binary, or a folder that its package was unpacked into."`
	Image    string   `xor:"stage" placeholder:"IMAGE" help:"Run this image of a server in containers. Where no server is installed but Docker, that is done with redis:8."`
	Redis    []string `xor:"stage" placeholder:"HOST:PORT" help:"Use the cluster or server that runs here. No slots are moved and no scripts flushed; keys begin with demo- and expire within an hour."`
	Embedded bool     `xor:"stage" help:"Use the store in this process, without Redis."`

	Workers  int    `default:"32" help:"Goroutines that ask, each again once it is answered."`
	Subjects int    `default:"10000" help:"Subjects that ask, the k-th k^-1.1 times as often as the first."`
	Seed     uint64 `help:"Makes the traffic the same again; 0: a new one."`
}

// Help is the long help.
func (demoCommand) Help() string {
	return `Starts a cluster of three shards on loopback addresses and asks five policies about Zipf-distributed subjects. Halfway,
while the traffic goes on, all scripts are flushed, the slot of the hottest subject moves to another shard key by key,
and a thousand more slots follow.

At the end the ledger holds what was admitted against the promise to each subject. The exit code is 1 if any was broken.`
}

// Validate is called by the parser.
func (c *demoCommand) Validate() error {
	const most = 1_000_000
	switch {
	case c.Duration <= 0:
		return fmt.Errorf("--duration=%v: must be above 0", c.Duration)
	case c.Workers < 1 || c.Workers > 10_000:
		return fmt.Errorf("--workers=%d: must be 1 to 10000", c.Workers)
	case c.Subjects < 1 || c.Subjects > most:
		return fmt.Errorf("--subjects=%d: must be 1 to %d", c.Subjects, most)
	}
	return nil
}

// Run is called by the parser.
func (c *demoCommand) Run(ctx context.Context, stdout io.Writer) error {
	kept, err := demo.Run(ctx, c.options(), c.reporter(stdout))
	if err == nil && !kept {
		err = errBroken
	}
	return err
}

func (c *demoCommand) options() demo.Options {
	o := demo.Options{
		Stage:    stage.Options{Server: c.Server, Image: c.Image, Redis: c.Redis, Embedded: c.Embedded},
		Duration: c.Duration,
		Workers:  c.Workers,
		Subjects: c.Subjects,
		Seed:     c.Seed,
		Slots:    1000,
	}
	if c.Quick {
		o.Duration, o.Slots = 2*time.Second, 100
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return o
}

func (c *demoCommand) reporter(w io.Writer) demo.Reporter {
	if c.JSON {
		return report.NewJSON(w)
	}
	return report.NewText(w)
}
