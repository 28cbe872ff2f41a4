package main

import (
	"context"
	"fmt"
	"io"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/compare"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/rediscluster/containers"
)

// compareCommand is "shardlimit compare".
type compareCommand struct {
	JSON   bool   `name:"json" help:"Print a JSON array."`
	Server string `xor:"server" placeholder:"PATH" help:"The server to ask for the bytes a key takes: a redis-server or valkey-server binary, or a folder that its package was unpacked into."`
	Image  string `xor:"server" placeholder:"IMAGE" help:"The image of a server to ask, in a container."`
}

// Run is called by the parser.
func (c *compareCommand) Run(ctx context.Context, stdout io.Writer) error {
	opts := rediscluster.Options{Server: c.Server}
	if c.Image != "" {
		opts.Launch = containers.Launch(c.Image)
	}
	rows, noServer, err := compare.Rows(ctx, opts)
	if err != nil {
		return err
	}
	if c.JSON {
		return compare.JSON(stdout, rows)
	}
	if err := compare.Table(stdout, rows); err != nil || noServer == nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\nbytes a key: %v\n", noServer)
	return err
}
