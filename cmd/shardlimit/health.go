package main

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/remote"
)

// healthCommand is "shardlimit health", for images that hold no other client.
type healthCommand struct {
	Daemon  string        `default:"http://127.0.0.1:8080" placeholder:"URL" help:"The daemon, by one of its listeners; ${default}."`
	Ready   bool          `help:"Ask whether it can decide, too: Redis answers, and it isn't about to end."`
	Timeout time.Duration `default:"2s" placeholder:"TIME" help:"How long to wait for the answer; ${default}."`
}

// Help is the long help.
func (healthCommand) Help() string {
	return `Asks a running daemon whether it runs. The exit code is 0 if it does, else 1.`
}

// Run is called by the parser.
func (c *healthCommand) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	daemon := remote.Daemon{URL: c.Daemon}
	if c.Ready {
		return daemon.Ready(ctx)
	}
	return daemon.Healthy(ctx)
}
