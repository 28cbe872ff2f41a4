package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// discovery finds out who serves which slots, the first time: it is the one
// thing that the client does in the goroutine of whoever asks for a node, with
// no regard to their deadline.
type discovery struct {
	known atomic.Bool

	mu     sync.Mutex
	search *search // nil if none is under way
}

// search is one attempt, which all wait for who come meanwhile.
type search struct {
	done chan struct{}
	err  error // once done
}

// longestSearch bounds an attempt: another may meet a node that answers.
const longestSearch = 5 * time.Second

// discover returns once it is known who serves what, or ctx or the deadline
// ends.
func (c *Client) discover(ctx context.Context, deadline time.Time, key string) error {
	if c.discovery.known.Load() {
		return nil
	}
	found := c.searchFor(key)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-found.done:
		return found.err
	case <-timer.C:
		return errLate
	case <-ctx.Done():
		return cause(ctx)
	}
}

// searchFor returns the search under way, or starts one.
func (c *Client) searchFor(key string) *search {
	d := &c.discovery
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.search == nil {
		d.search = &search{done: make(chan struct{})}
		go c.find(d.search, key)
	}
	return d.search
}

func (c *Client) find(s *search, key string) {
	ctx, cancel := context.WithTimeout(c.life, longestSearch)
	defer cancel()
	_, s.err = c.cluster.MasterForKey(ctx, key)
	d := &c.discovery
	d.known.Store(s.err == nil)
	d.mu.Lock()
	d.search = nil
	d.mu.Unlock()
	close(s.done)
}
