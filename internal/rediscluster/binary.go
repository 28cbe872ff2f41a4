package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// ErrNoServer says that there is no server to run, and what to install.
var ErrNoServer = errors.New("no redis-server or valkey-server: " +
	"install one (Debian, Ubuntu: apt install redis-server; macOS: brew install redis), or start Docker")

// FindServer returns the words that start the server which Options.Server
// names. A server that was named and isn't there is not an ErrNoServer.
func FindServer(name string) ([]string, error) {
	if name == "" {
		return installedServer()
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("the server asked for: %w", err)
	}
	if info.IsDir() {
		return unpackedServer(name)
	}
	path, err := filepath.Abs(name) // each node runs in its own folder
	return []string{path}, err
}

func installedServer() ([]string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}, nil
		}
	}
	return nil, ErrNoServer
}

// unpackedServer returns how to run the server in a folder that packages were
// unpacked into: by the folder's own loader and libraries, where it has them.
func unpackedServer(root string) ([]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	server := filepath.Join(root, "usr/bin/redis-server")
	if _, err := os.Stat(server); err != nil {
		return nil, fmt.Errorf("the server asked for: %w", err)
	}
	loader, libs := onlyMatch(root, "lib64/ld-linux-*.so.*"), onlyMatch(root, "usr/lib/*-linux-gnu*")
	if loader == "" || libs == "" {
		return []string{server}, nil
	}
	return []string{loader, "--library-path", libs, server}, nil
}

// onlyMatch returns the first path under root that the pattern matches, or "".
func onlyMatch(root, pattern string) string {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

// askVersion runs the server with --version.
func askVersion(ctx context.Context, command []string) (Version, error) {
	args := append(slices.Clip(command[1:]), "--version")
	out, err := exec.CommandContext(ctx, command[0], args...).CombinedOutput()
	if err != nil {
		return Version{}, fmt.Errorf("%s --version: %w: %s", command[len(command)-1], err, out)
	}
	return ParseVersion(string(out))
}
