package stage

import "slices"

// State is how a shard does.
type State string

// The states.
const (
	Up     State = "up"
	Down   State = "down" // its primary is gone
	Moving State = "moving"
)

// Shard is one shard as it was last seen.
type Shard struct {
	Addr     string // of its primary
	Slots    int
	Replicas int // that run, where the cluster is the demo's own
	State    State
}

// Look returns the shards, by what Refresh last saw.
func (s *Stage) Look() []Shard {
	moving := s.moving.Load()
	var shards []Shard
	for i, o := range s.owners.all() {
		shard := Shard{Addr: o.primary, Slots: o.slots, State: Up}
		if moving != nil && slices.Contains(moving[:], i) {
			shard.State = Moving
		}
		if s.cluster != nil {
			if !s.runs(o.primary) {
				shard.State = Down
			}
			shard.Replicas = len(s.replicas(o))
		}
		shards = append(shards, shard)
	}
	return shards
}

// replicas returns the addresses of a shard's replicas that run.
func (s *Stage) replicas(o owner) []string {
	return slices.DeleteFunc(slices.Clone(o.nodes), func(addr string) bool { return addr == o.primary || !s.runs(addr) })
}

func (s *Stage) runs(addr string) bool {
	n := s.cluster.Node(addr)
	return n != nil && n.Running()
}
