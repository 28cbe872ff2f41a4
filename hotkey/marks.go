package hotkey

import "sync"

// marks is a set of a lease's spends, by number. It takes no room before the
// first, and at most a bit for each spend there was, in words of 64. The zero
// marks are ready.
type marks struct {
	mu    sync.Mutex
	words map[uint32]uint64
}

// add reports false if n was in it.
func (m *marks) add(n uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	word, bit := m.words[n/64], uint64(1)<<(n%64)
	if word&bit != 0 {
		return false
	}
	if m.words == nil {
		m.words = map[uint32]uint64{}
	}
	m.words[n/64] = word | bit
	return true
}

func (m *marks) remove(n uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.words[n/64] &^= uint64(1) << (n % 64)
}
