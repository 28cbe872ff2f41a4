package shardlimit

import (
	"context"
	"sync"
)

// tasks are goroutines that outlive the calls which started them. The zero tasks
// has none.
type tasks struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed once none runs, if end waits for that
}

// start runs task in a goroutine, unless tasks has ended.
func (t *tasks) start(task func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running++
	go func() {
		defer t.done()
		task()
	}()
	return true
}

func (t *tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running--; t.running == 0 && t.idle != nil {
		close(t.idle)
	}
}

// end starts no more tasks, and waits for those that run until ctx ends. It is
// called once.
func (t *tasks) end(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	running := t.running
	idle := make(chan struct{})
	t.idle = idle
	t.mu.Unlock()
	if running == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
