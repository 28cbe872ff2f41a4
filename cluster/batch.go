package cluster

import (
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// runner sends a shard's queue, one batch after the other, until it is empty.
// Then it waits for more, or for its end.
type runner struct {
	shard    *shard
	pipe     redis.Pipeliner
	wake     chan struct{} // receives when there is more; closed at the end
	out      *sending      // of the batch
	commands []*command    // of the batch
	line     []redis.Cmder // what goes into the pipeline for them
}

// startRunnerLocked starts one more runner.
func (s *shard) startRunnerLocked() {
	s.running++
	if s.wakeLocked() {
		return
	}
	r := &runner{shard: s, wake: make(chan struct{}, 1)}
	if s.node != nil {
		r.pipe = s.node.Pipeline()
	}
	go r.run()
}

func (r *runner) run() {
	for more := true; more; _, more = <-r.wake {
		for r.take() {
			err := r.send()
			r.answer(err)
		}
	}
}

// take takes the oldest of the queue as the next batch. It reports false if
// there is none.
func (r *runner) take() bool {
	runtime.Gosched() // let those who are about to call come with this one
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked(r.out)
	n := min(s.queue.length, s.batch.Calls)
	if n == 0 {
		s.running--
		s.restLocked(r)
		s.noteIdleLocked()
		return false
	}
	for range n {
		r.commands = append(r.commands, s.queue.pop())
	}
	r.out = s.beginLocked(s.life, r.latest())
	return true
}

// send sends the batch, and returns once the client holds none of it any more.
func (r *runner) send() error {
	if r.pipe == nil {
		return r.shard.elsewhere(r.out, r.commands)
	}
	r.shard.hooks.sending(r.shard.addr, len(r.commands))
	for _, c := range r.commands {
		if c.asking {
			r.line = append(r.line, redis.NewCmd(r.out, "asking"))
		}
		r.line = append(r.line, c)
	}
	_ = r.pipe.BatchProcess(r.out, r.line...) // only collects
	_, err := r.pipe.Exec(r.out)
	return err
}

// latest returns the latest deadline in the batch: no call ends by another's.
func (r *runner) latest() time.Time {
	latest := r.commands[0].deadline
	for _, c := range r.commands[1:] {
		if c.deadline.After(latest) {
			latest = c.deadline
		}
	}
	return latest
}

// answer tells the callers that their commands are done. err is what there is
// to say about those that the client said nothing about, unless it is another's
// reply.
func (r *runner) answer(err error) {
	for _, c := range r.commands {
		if c.err == nil && !isReply(err) {
			c.err = err
		}
		c.done <- struct{}{}
	}
	clear(r.commands)
	clear(r.line)
	r.commands, r.line = r.commands[:0], r.line[:0]
}
