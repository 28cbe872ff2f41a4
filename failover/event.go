package failover

import (
	"fmt"
	"time"
)

// Kind says what an Event tells.
type Kind uint8

// The kinds of events. Each is told once for each change.
const (
	// Opened: no more calls go to Shard, because of Err.
	Opened Kind = iota + 1
	// Closed: calls go to Shard again, after Lasted, or Shard is Gone.
	Closed
	// FallbackBegan: the first call got no answer of Shard, because of Err.
	FallbackBegan
	// FallbackEnded: all calls have had answers of Shard for a window, or it is
	// Gone. Calls says how many hadn't in the time before, which Lasted.
	FallbackEnded
	// TopologyChanged: Shards are the primaries that serve slots now.
	TopologyChanged
	// Misconfigured: Shard met a call with Err, the first of its code there.
	Misconfigured
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case Opened:
		return "breaker opened"
	case Closed:
		return "breaker closed"
	case FallbackBegan:
		return "fallback began"
	case FallbackEnded:
		return "fallback ended"
	case TopologyChanged:
		return "topology changed"
	case Misconfigured:
		return "misconfigured"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Event is a change in how the shards fare. Its Kind says which fields are set.
type Event struct {
	Kind   Kind
	Shard  string // the address; "" where no primary was found to ask
	Err    *Error
	Lasted time.Duration
	Gone   bool // the shard serves no slots any more
	Calls  Unanswered
	Shards []string // sorted
}

// Unanswered counts the calls that got no answer, by why.
type Unanswered struct {
	NeverRan int64 // refused by the shard, or it was not reached in time
	Unknown  int64 // may have run all the same
	Open     int64 // not sent: the breaker was open
}
