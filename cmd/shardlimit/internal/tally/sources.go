package tally

import "github.com/shardlimit/shardlimit"

// Sources counts decisions by what made them. Its JSON has the words of
// [shardlimit.Source].
type Sources struct {
	Redis    int64 `json:"redis"`
	Lease    int64 `json:"lease"`
	Denial   int64 `json:"denial"`
	Fallback int64 `json:"fallback"`
	Memory   int64 `json:"memory"`
}

// All returns how many decisions there were.
func (s Sources) All() int64 { return s.Redis + s.Lease + s.Denial + s.Fallback + s.Memory }

// Add adds what was counted elsewhere.
func (s *Sources) Add(o Sources) {
	s.Redis += o.Redis
	s.Lease += o.Lease
	s.Denial += o.Denial
	s.Fallback += o.Fallback
	s.Memory += o.Memory
}

func (s *Sources) count(by shardlimit.Source) {
	switch by {
	case shardlimit.FromRedis:
		s.Redis++
	case shardlimit.FromLease:
		s.Lease++
	case shardlimit.FromDenial:
		s.Denial++
	case shardlimit.FromFallback:
		s.Fallback++
	case shardlimit.FromMemory:
		s.Memory++
	}
}
