package cluster

import "time"

// rest is about how long runners are kept on a shard that nobody asks. One that
// is started anew for every few calls has its stack grown each time, which is
// most of what such a batch costs here, system calls aside.
const rest = 100 * time.Millisecond

// restLocked keeps a runner that has nothing to send.
func (s *shard) restLocked(r *runner) {
	if s.closed {
		close(r.wake)
		return
	}
	s.spare = append(s.spare, r)
	if !s.resting {
		s.resting = true
		time.AfterFunc(rest, s.endRest)
	}
}

// wakeLocked sets a runner going that was kept. It reports false if there is
// none.
func (s *shard) wakeLocked() bool {
	last := len(s.spare) - 1
	if last < 0 {
		return false
	}
	s.spare[last].wake <- struct{}{}
	s.spare = s.spare[:last]
	return true
}

// endRest ends the runners that are kept, if nobody asks for the shard.
func (s *shard) endRest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < rest && !s.closed {
		time.AfterFunc(rest, s.endRest)
		return
	}
	s.resting = false
	s.dismissLocked()
}

// dismissLocked ends the runners that are kept.
func (s *shard) dismissLocked() {
	for _, r := range s.spare {
		close(r.wake)
	}
	s.spare = nil
}
