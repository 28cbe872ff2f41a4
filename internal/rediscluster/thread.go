package rediscluster

import (
	"errors"
	"runtime"
)

// thread is an operating system thread that calls functions, one after the
// other, until it's closed.
//
// Servers are started on one so that they end with this program, even where it
// is killed: Linux sends a child its Pdeathsig when the thread that forked it
// ends, and Go's other threads may end long before the program does.
type thread struct {
	calls chan func()
	quit  chan struct{}
	done  chan struct{}
}

func newThread() *thread {
	t := &thread{calls: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

// run never unlocks its thread, so that the thread ends with it.
func (t *thread) run() {
	defer close(t.done)
	runtime.LockOSThread()
	for {
		select {
		case call := <-t.calls:
			call()
		case <-t.quit:
			return
		}
	}
}

// do calls f on the thread and returns its error.
func (t *thread) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case t.calls <- func() { result <- f() }:
		return <-result
	case <-t.done:
		return errors.New("closed")
	}
}

// close ends the thread, once. On Linux the processes started on it end too.
func (t *thread) close() {
	close(t.quit)
	<-t.done
}
