package rediscluster

import "runtime"

// thread is an operating system thread that calls functions, one after the
// other, until it's closed.
//
// Servers are started on one so that they end with this program, even where it
// is killed: Linux sends a child its Pdeathsig when the thread that forked it
// ends, and Go's other threads may end long before the program does.
type thread struct {
	calls chan func()
	done  chan struct{}
}

func newThread() *thread {
	t := &thread{calls: make(chan func()), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *thread) run() {
	defer close(t.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for call := range t.calls {
		call()
	}
}

// do calls f on the thread and returns its error.
func (t *thread) do(f func() error) error {
	result := make(chan error, 1)
	t.calls <- func() { result <- f() }
	return <-result
}

// close ends the thread. The processes started on it must be gone.
func (t *thread) close() {
	close(t.calls)
	<-t.done
}
