package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/live"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/report"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
)

// demoCommand is "shardlimit demo".
type demoCommand struct {
	Duration *time.Duration `help:"How long to drive traffic: 15s, or 1m in a terminal."`
	Quick    bool           `help:"About five seconds in all, as for CI: plain lines, the duration is 2s, and fewer slots move."`
	Plain    bool           `xor:"form" help:"Plain lines also in a terminal."`
	JSON     bool           `name:"json" xor:"form" help:"One JSON object a line: the scene, events, a tick each second, and the ledger."`

	Server   string   `xor:"stage" placeholder:"PATH" help:"Run this server: a redis-server or valkey-server binary, or a folder that its package was unpacked into."`
	Image    string   `xor:"stage" placeholder:"IMAGE" help:"Run this image of a server in containers. Where no server is installed but Docker, that is done with redis:8."`
	Redis    []string `xor:"stage" placeholder:"HOST:PORT" help:"Use the cluster or server that runs here. No slots are moved and no scripts flushed; keys begin with demo- and expire within an hour."`
	Embedded bool     `xor:"stage" help:"Use the store in this process, without Redis."`
	Replicas *int     `help:"Replicas of each shard of the demo's own cluster: 0, or 1 in a terminal. A primary can be killed only where there are some."`

	Workers  int    `default:"32" help:"Goroutines that ask, each again once it is answered."`
	Subjects int    `default:"10000" help:"Subjects that ask, the k-th k^-1.1 times as often as the first."`
	Seed     uint64 `help:"Makes the traffic the same again; 0: a new one."`
}

// Help is the long help.
func (demoCommand) Help() string {
	return `Starts a cluster of three shards on loopback addresses and asks six policies about Zipf-distributed subjects. Halfway,
while the traffic goes on, all scripts are flushed, the slot of the hottest subject moves to another shard key by key,
and a thousand more slots follow.

In a terminal this is a live view, and keys do the same and more: k kills a primary, whose replica takes over, r restarts
it, m moves slots, f flushes scripts, q quits. Once a key was pressed, nothing happens by itself any more. Elsewhere, and
with --plain, --json or --quick, it prints lines.

At the end the ledger holds what was admitted against the promise to each subject. The exit code is 1 if any was broken.
Where a primary was killed, the promise allows for what its replica had not received yet; the ledger says how much.`
}

// Validate is called by the parser.
func (c *demoCommand) Validate() error {
	const most = 1_000_000
	switch {
	case c.Duration != nil && *c.Duration <= 0:
		return fmt.Errorf("--duration=%v: must be above 0", *c.Duration)
	case c.Replicas != nil && (*c.Replicas < 0 || *c.Replicas > 5):
		return fmt.Errorf("--replicas=%d: must be 0 to 5", *c.Replicas)
	case c.Workers < 1 || c.Workers > 10_000:
		return fmt.Errorf("--workers=%d: must be 1 to 10000", c.Workers)
	case c.Subjects < 1 || c.Subjects > most:
		return fmt.Errorf("--subjects=%d: must be 1 to %d", c.Subjects, most)
	}
	return nil
}

// Run is called by the parser.
func (c *demoCommand) Run(ctx context.Context, stdout io.Writer) error {
	kept, err := c.play(ctx, stdout)
	if err == nil && !kept {
		err = errBroken
	}
	return err
}

func (c *demoCommand) play(ctx context.Context, stdout io.Writer) (kept bool, err error) {
	switch {
	case c.JSON:
		return demo.Run(ctx, c.options(15*time.Second, 0), report.NewJSON(stdout))
	case c.Plain || c.Quick || !isTerminal(stdout):
		return demo.Run(ctx, c.options(15*time.Second, 0), report.NewText(stdout))
	default:
		return live.Run(ctx, c.options(time.Minute, 1), stdout)
	}
}

// isTerminal reports whether a view can be drawn on w and keys be read.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f.Fd()) && term.IsTerminal(os.Stdin.Fd()) && os.Getenv("TERM") != "dumb"
}

// options returns what to play, for so long and with so many replicas unless
// the flags say otherwise.
func (c *demoCommand) options(d time.Duration, replicas int) demo.Options {
	o := demo.Options{
		Stage: stage.Options{
			Server: c.Server, Image: c.Image, Redis: c.Redis, Embedded: c.Embedded, Replicas: replicas,
		},
		Duration: d,
		Workers:  c.Workers,
		Subjects: c.Subjects,
		Seed:     c.Seed,
		Slots:    1000,
	}
	if c.Duration != nil {
		o.Duration = *c.Duration
	}
	if c.Replicas != nil {
		o.Stage.Replicas = *c.Replicas
	}
	if c.Quick {
		o.Duration, o.Slots = 2*time.Second, 100
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return o
}
