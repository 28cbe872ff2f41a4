package hotkey

import (
	"context"
	"sync"
)

// crew is goroutines that have an owner, who waits for them. The zero crew is
// ready.
type crew struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed when none runs any more; nil before close
}

// start runs f in a goroutine. It reports false if the crew is closed.
func (c *crew) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running++
	go func() {
		defer c.end()
		f()
	}()
	return true
}

func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.closed && c.running == 0 {
		close(c.idle)
	}
}

// close lets nothing start any more, and waits for what runs until ctx ends,
// whose error it returns then.
func (c *crew) close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.idle = make(chan struct{})
		if c.running == 0 {
			close(c.idle)
		}
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
