// Package crowd is many instances of a service that ask for the same hot keys,
// each a process of its own, and the account of what they were all answered.
//
// A program that calls [Main] first can be its own instances: [Start] runs it
// again with an [Order]. Each instance writes down every answer, in a file that
// outlives it, so that it may be killed at any moment; [Read] puts the files of
// all together and judges them.
package crowd

import (
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// Order is what an instance is to do. It travels as JSON.
type Order struct {
	Addrs   []string // of the cluster
	Prefix  string
	Timeout time.Duration
	Entries int // hot keys at once; 0: the default
	Keys    []Key
	Start   time.Time     // of the run: what was written down counts from it
	For     time.Duration // to ask for
	Seed    uint64

	Pause   bool          // ask for keys on and off, every other at the same time, so that they cool
	Reopen  time.Duration // close the Limiter and make another each so often; 0: once
	Faults  bool          // that Redis does not answer is no error
	Durable bool          // write each answer at once, as it may be killed
	Log     string        // the file to write to
}

// Key is what is asked for.
type Key struct {
	Policy  string
	Subject string
	Limit   shardlimit.Limit
	Leases  shardlimit.LeaseMode
	Rate    float64 // requests a second, of this instance; 0: it doesn't ask
	Refund  int     // of those that pass, it refunds one of so many; 0: none
}

// terms are what the answers about k are held against.
func (k Key) terms() ledger.Terms {
	return ledger.Terms{Limits: []shardlimit.Limit{k.Limit}, Leases: k.Leases}
}

// policies returns the keys' policies.
func (o *Order) policies() ([]*shardlimit.Policy, error) {
	policies := make([]*shardlimit.Policy, len(o.Keys))
	for i, k := range o.Keys {
		var err error
		policies[i], err = shardlimit.NewPolicy(shardlimit.PolicyConfig{
			Name: k.Policy, Limits: []shardlimit.Limit{k.Limit}, Leases: k.Leases, OnFailure: shardlimit.FailClosed(),
		})
		if err != nil {
			return nil, err
		}
	}
	return policies, nil
}

// Report is what an instance says of itself at its end. One that was killed says
// nothing.
type Report struct {
	Counts   Counts
	Counters shardlimit.Counters
	Errors   []string      // what went wrong, some of it
	Late     time.Duration // the longest that a request was made after it was due, at the end

	NoPlace int   // looks at a Limiter that had no place for a key that is hot, as its entries are too few
	Cooled  int   // entries that were seen to go
	Held    int64 // units that leases held as Limiters were closed
}

// atEnd is how long before the end of a run it is at its end: what was late before
// has been made up for by then.
const atEnd = time.Second

// Counts are those of hotkey, summed over all Limiters that the instance had.
type Counts struct{ Leased, Lent, GivenBack, Forgotten, Asks, Missed int64 }
