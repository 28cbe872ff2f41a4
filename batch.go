package shardlimit

import "github.com/shardlimit/shardlimit/cluster"

// BatchConfig bounds what a Limiter does for each primary. Calls that come while
// others are under way wait for them, and then go out together; one that finds
// its primary idle goes at once. The zero value is a good default. NewLocal has
// nothing to send.
type BatchConfig struct {
	// Calls is the most that go out as one pipeline; 0 means 128.
	Calls int
	// InFlight is the most pipelines under way at once, each on a connection
	// of its own; 0 means 2. More of them are smaller, and cost more.
	InFlight int
	// Queue is the most calls that wait for a pipeline; 0 means 8192. For those
	// beyond it the policy's failure mode decides at once.
	Queue int
}

// ErrQueueFull is the cause of an [UnavailableError] where the call wasn't sent,
// as Batch.Queue others waited for the shard already. It says nothing of the
// shard, and doesn't count for its breaker.
var ErrQueueFull = cluster.ErrQueueFull

// faults returns what is wrong with b.
func (b *BatchConfig) faults() []error {
	var faults []error
	check := func(field string, value int) {
		if value < 0 {
			faults = append(faults, &ConfigError{Field: "Batch." + field, Value: value, Reason: "must not be negative"})
		}
	}
	check("Calls", b.Calls)
	check("InFlight", b.InFlight)
	check("Queue", b.Queue)
	return faults
}
