package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
)

// configCommand is "shardlimit config".
type configCommand struct {
	Check configCheckCommand `cmd:"" help:"Say everything that is wrong with a configuration, and where."`
}

// configCheckCommand is "shardlimit config check".
type configCheckCommand struct {
	File string `arg:"" type:"path" help:"The configuration."`
}

// Run is called by the parser.
func (c *configCheckCommand) Run(stdout io.Writer) error {
	read, err := config.Load(c.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s is right: policies %s\n", c.File, strings.Join(read.Rules.Names(), ", "))
	return err
}
