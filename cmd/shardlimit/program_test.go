package main

import (
	"bytes"
	"context"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// other is a program of others that runs beside the daemon.
type other struct {
	t      *testing.T
	ended  chan struct{}
	mu     sync.Mutex
	output bytes.Buffer
}

// startOther starts a program, which is killed when the test ends.
func startOther(t *testing.T, name string, args ...string) *other {
	t.Helper()
	needs(t, name)
	ctx, kill := context.WithCancel(context.Background())
	o, c := &other{t: t, ended: make(chan struct{})}, exec.CommandContext(ctx, name, args...)
	c.Stdout, c.Stderr = o, o
	if err := c.Start(); err != nil {
		kill()
		t.Fatal(err)
	}
	go func() {
		defer close(o.ended)
		_ = c.Wait() // it is killed in the end
	}()
	t.Cleanup(func() {
		kill()
		<-o.ended
	})
	return o
}

// Write takes what the program prints.
func (o *other) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.output.Write(p)
}

// said returns all that it has printed.
func (o *other) said() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.output.String()
}

// until returns once it is so, and ends the test if the program ends before.
func (o *other) until(what string, so func() bool) {
	o.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-o.ended:
			o.t.Fatalf("the program ended before %s:\n%s", what, o.said())
		}
	}
}
