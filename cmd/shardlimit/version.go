package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// versionCommand is "shardlimit version".
type versionCommand struct{}

// Run is called by the parser.
func (versionCommand) Run(stdout io.Writer) error {
	_, err := fmt.Fprintf(stdout, "shardlimit %s, %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version returns the version that this was built as.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
