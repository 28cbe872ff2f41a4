package main

import (
	"cmp"
	"errors"
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
	File        string `arg:"" optional:"" type:"path" help:"The configuration."`
	EnvoyConfig string `type:"path" placeholder:"PATH" help:"The limits that Envoy asks about, in place of those that the configuration names."`
}

// Validate is called by the parser.
func (c *configCheckCommand) Validate() error {
	if c.File == "" && c.EnvoyConfig == "" {
		return errors.New("want a file, --envoy-config, or both")
	}
	return nil
}

// Run is called by the parser.
func (c *configCheckCommand) Run(stdout io.Writer) error {
	read, _, err := config.Source{Path: c.File, Flags: config.Default(), Envoy: c.EnvoyConfig}.Read()
	if err != nil {
		return err
	}
	var has []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"policies", read.Rules.Names()}, {"Envoy's domains", read.Envoy.Domains.Names()}} {
		if len(part.names) > 0 {
			has = append(has, part.what+" "+strings.Join(part.names, ", "))
		}
	}
	_, err = fmt.Fprintf(stdout, "%s is right: %s\n", cmp.Or(c.File, c.EnvoyConfig), strings.Join(has, "; "))
	return err
}
