package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// shard is what the client knows of one primary, and the way to it.
type shard struct {
	node  *redis.Client
	addr  string
	binds bool // deadlines interrupt what the node's sockets do
	clock clock
	batch Batch
	hooks *Hooks
	life  context.Context // ends what is under way when the Client is closed

	// elsewhere sends commands one by one through the whole cluster's client,
	// where there is no node.
	elsewhere func(context.Context, []*command) error

	mu      sync.Mutex
	queue   queue
	running int           // runners that send
	spare   []*runner     // that have nothing to send
	resting bool          // endRest will be called
	lone    *sending      // of a caller who sends its own command
	watch   watch         // over what is sent
	closed  bool          // takes no more
	idle    chan struct{} // closed once nothing is under way, if somebody waits for that
	asked   time.Time     // last
	last    string        // key that was asked for
	probing bool
}

// The reasons why a shard does not take a command.
var (
	// ErrQueueFull says that too many calls wait for the shard already.
	ErrQueueFull = errors.New("too many calls wait for this shard")
	// ErrClosed says that the Client is closed.
	ErrClosed = redis.ErrClosed
)

// send sends c, and returns what became of it when that is known, or when ctx
// or c's deadline ends. c is not the caller's any more.
func (s *shard) send(ctx context.Context, c *command) outcome {
	now := time.Now()
	alone, err := s.admit(ctx, c, now)
	switch {
	case err != nil:
		c.free()
		return outcome{err: err}
	case alone != nil:
		return s.sendAlone(alone, c)
	default:
		memberOf(ctx).come(s)
		return s.await(ctx, c, c.deadline.Sub(now))
	}
}

// longestAlone is how long a caller may be held by a socket, which a cancelled
// context doesn't interrupt.
const longestAlone = 100 * time.Millisecond

// soon reports whether a caller can use a socket by itself and still be back in
// time.
func (s *shard) soon(ctx context.Context, left time.Duration) bool {
	return s.binds && (left <= longestAlone || ctx.Done() == nil)
}

// admit puts c into the queue, or, where there is nothing under way and the
// caller may, gives it a context to send c by itself: that saves two changes of
// goroutine, which take as long as everything else.
func (s *shard) admit(ctx context.Context, c *command, now time.Time) (*sending, error) {
	held := memberOf(ctx) != nil // for the others of its DoEach
	may := !held && s.soon(ctx, c.deadline.Sub(now)) && !c.asking
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.last = now, c.key
	switch {
	case s.closed:
		return nil, ErrClosed
	case may && !s.busyLocked():
		s.lone = s.beginLocked(ctx, c.deadline)
		return s.lone, nil
	case s.queue.length >= s.batch.Queue:
		return nil, ErrQueueFull
	}
	s.queue.push(c)
	if !held && s.running < s.batch.InFlight {
		s.startRunnerLocked()
	}
	return nil, nil
}

// busyLocked reports whether anything is under way.
func (s *shard) busyLocked() bool { return s.running > 0 || s.lone != nil }

// noteIdleLocked tells whoever waits for it that nothing is under way any more.
func (s *shard) noteIdleLocked() {
	if s.idle != nil && !s.busyLocked() {
		close(s.idle)
		s.idle = nil
	}
}

// sendAlone sends c from the goroutine of its caller.
func (s *shard) sendAlone(ctx *sending, c *command) outcome {
	defer s.endAlone()
	s.hooks.sending(s.addr, 1)
	result := c.outcome(s.node.Process(ctx, c))
	c.free()
	return result
}

func (s *shard) endAlone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked(s.lone)
	s.lone = nil
	s.noteIdleLocked()
}

// await waits for what becomes of c.
func (s *shard) await(ctx context.Context, c *command, left time.Duration) outcome {
	c.timer.Reset(left)
	select {
	case <-c.done:
		c.timer.Stop()
		result := c.outcome(nil)
		c.free()
		return result
	case <-c.timer.C:
		return s.leave(c, errLate)
	case <-ctx.Done():
		c.timer.Stop()
		return s.leave(c, cause(ctx))
	}
}

// leave takes c back from the queue, or else abandons it to its runner: who
// then never is used again.
func (s *shard) leave(c *command, err error) outcome {
	s.mu.Lock()
	queued := s.queue.remove(c)
	s.mu.Unlock()
	if !queued {
		return c.abandon(err)
	}
	c.free()
	return outcome{err: err}
}

// close refuses what comes from now on. What is under way goes on; the channel
// is closed once it has ended.
func (s *shard) close() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.dismissLocked()
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.noteIdleLocked()
	return idle
}

// drop refuses what still waits, and ends what waits for a connection.
func (s *shard) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queue.length > 0 {
		c := s.queue.pop()
		c.err = ErrClosed
		c.done <- struct{}{}
	}
	s.watch.end(ErrClosed, func(*sending) bool { return true })
}

// forgotten reports whether nobody has asked for the shard for long.
func (s *shard) forgotten(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.busyLocked() && !s.probing && now.Sub(s.asked) > forget
}

// forget is how long an unused shard is kept. What is lost with it is its
// clock's distance, which the next reply teaches again.
const forget = 10 * time.Minute
