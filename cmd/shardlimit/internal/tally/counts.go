package tally

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/shardlimit/shardlimit"
)

// Counts says what calls were answered, and how fast.
type Counts struct {
	Allowed  int64 // by the limits
	Denied   int64
	Fallback int64     // answered by a failure mode
	Errors   int64     // no decision
	Shards   []int64   // decisions about each shard's subjects
	Policies []Sources // of the decisions of each policy

	latency *hdrhistogram.Histogram // ns
}

// The bounds of a latency that is told from others, in ns; and to how many
// digits.
const (
	leastLatency  = 100
	mostLatency   = int64(time.Minute)
	latencyDigits = 2
)

func newCounts(shards, policies int) Counts {
	return Counts{
		Shards: make([]int64, shards), Policies: make([]Sources, policies),
		latency: hdrhistogram.New(leastLatency, mostLatency, latencyDigits),
	}
}

// Decisions returns how many calls were decided.
func (c *Counts) Decisions() int64 { return c.Allowed + c.Denied + c.Fallback }

// Sources returns what made the decisions, of all policies.
func (c *Counts) Sources() Sources {
	var all Sources
	for _, s := range c.Policies {
		all.Add(s)
	}
	return all
}

// Latency returns how long a share of the calls took at most, in percent: 50
// for the median, 100 for the slowest.
func (c *Counts) Latency(percent float64) time.Duration {
	return time.Duration(c.latency.ValueAtPercentile(percent))
}

func (c *Counts) record(call *Call) {
	switch {
	case call.Err != nil:
		c.Errors++
	case call.Result.Source == shardlimit.FromFallback:
		c.Fallback++
	case call.Result.Allowed:
		c.Allowed++
	default:
		c.Denied++
	}
	if call.Err == nil {
		c.Policies[call.Policy].count(call.Result.Source)
		if call.Shard >= 0 {
			c.Shards[call.Shard]++
		}
	}
	took := int64(call.At.Replied - call.At.Sent)
	_ = c.latency.RecordValue(min(took, mostLatency)) // an error says only that it's out of bounds
}

// add adds what was counted elsewhere.
func (c *Counts) add(o *Counts) {
	c.Allowed += o.Allowed
	c.Denied += o.Denied
	c.Fallback += o.Fallback
	c.Errors += o.Errors
	for i, n := range o.Shards {
		c.Shards[i] += n
	}
	for i, s := range o.Policies {
		c.Policies[i].Add(s)
	}
	c.latency.Merge(o.latency)
}

func (c *Counts) reset() {
	clear(c.Shards)
	clear(c.Policies)
	c.latency.Reset()
	*c = Counts{Shards: c.Shards, Policies: c.Policies, latency: c.latency}
}
