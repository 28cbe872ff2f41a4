package cluster

import "testing"

// kept returns how many runners wait for something to send.
func (s *shard) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spare)
}

func TestRunnersEndSoonAfterTheLastCall(t *testing.T) {
	server := newFakeOf(t, func(int64, []string) string { return granted() })
	c := server.plainClient(t, Options{Timeout: patient}) // no call goes alone
	s := shardOf(t, c)
	for range 3 { // those that come back start anew
		if _, err := c.Do(t.Context(), take(many, "key")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an idle shard", func() bool { return !s.underWay() })
		eventually(t, "the runner's end", func() bool { return s.kept() == 0 })
	}
}
