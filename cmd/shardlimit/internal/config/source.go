package config

import (
	"bytes"
	"cmp"
	"fmt"
	"os"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// Source is where a configuration comes from.
type Source struct {
	Path  string  // of the file; "" for none
	Flags *Config // what holds where there is no file
	Envoy string  // the EnvoyPath in place of the file's; "" for the file's own
}

// Load reads the file at path, and those that it names.
func Load(path string) (*Config, error) {
	c, _, err := Source{Path: path}.Read()
	return c, err
}

// Read reads the configuration from all of its files, and returns what they
// hold too: as long as that is the same, so is the configuration. The error is a
// yamldoc.FileError, or that a file can't be read.
func (s Source) Read() (c *Config, text []byte, err error) {
	c, text, err = s.base()
	if err != nil {
		return nil, text, err
	}
	c.Server.EnvoyPath = cmp.Or(s.Envoy, c.Server.EnvoyPath)
	more, err := c.readDomains()
	text = append(text, more...)
	if err != nil {
		return nil, text, err
	}
	return c, text, nil
}

// base reads what comes before Envoy's limits.
func (s Source) base() (*Config, []byte, error) {
	if s.Path == "" {
		c := *s.Flags
		return &c, nil, nil
	}
	text, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	c, err := Parse(s.Path, text)
	return c, text, err
}

// readDomains reads Envoy's limits, if there are any, and returns the text of
// their files.
func (c *Config) readDomains() ([]byte, error) {
	if c.Server.EnvoyPath == "" {
		return nil, nil
	}
	files, err := domains.Files(c.Server.EnvoyPath)
	if err != nil {
		return nil, fmt.Errorf("config: envoy: %w", err)
	}
	var text bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&text, "\n%q\n%s", f.Path, f.Text)
	}
	c.Envoy.Domains, err = domains.Parse(files, c.Envoy.Settings)
	if err == nil && len(c.Envoy.Domains.Names()) == 0 { // else a folder that isn't there yet would let all pass
		err = yamldoc.FileError{{Path: c.Server.EnvoyPath, Reason: "has no domain"}}
	}
	return text.Bytes(), err
}
