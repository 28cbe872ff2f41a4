package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// daemon is a process of "shardlimit serve".
type daemon struct {
	command *exec.Cmd
	address string // of its public listener
	read    chan struct{}
}

// stopping is how long a daemon may take to end, until it is killed.
const stopping = 20 * time.Second

// start starts the program with these flags, on a port of its own, and returns
// once it listens.
func start(ctx context.Context, program string, flags ...string) (*daemon, error) {
	args := append([]string{"serve", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--log-format=json"}, flags...)
	d := &daemon{command: exec.CommandContext(ctx, program, args...), read: make(chan struct{})}
	d.command.Cancel = func() error { return d.command.Process.Signal(syscall.SIGTERM) }
	d.command.WaitDelay = stopping
	d.command.Stderr = os.Stderr
	out, err := d.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for d.address == "" && lines.Scan() {
		var line struct{ Msg, Listener, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" && line.Listener == "public" {
			d.address = line.Address
		}
	}
	go func() {
		defer close(d.read)
		for lines.Scan() { // so that the daemon never waits to write
		}
	}()
	if d.address == "" {
		return nil, fmt.Errorf("%s serve ended before it listened: %w", program, d.stop())
	}
	return d, nil
}

// stop ends the daemon in order.
func (d *daemon) stop() error {
	_ = d.command.Process.Signal(syscall.SIGTERM) // it may have ended
	<-d.read
	return d.command.Wait()
}
