package demo

import (
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// Reporter shows a demo, as text or otherwise. One goroutine calls it.
type Reporter interface {
	Opening(plan string) // what may take some seconds
	Scene(Scene)
	Event(at time.Duration, text string)
	Tick(Tick)
	End(End)
}

// Scene is what the demo plays with.
type Scene struct {
	Where    string        `json:"where"`
	Note     string        `json:"note,omitempty"` // why it isn't what was wished for
	OpenedIn time.Duration `json:"-"`
	Shards   int           `json:"shards"`
	Policies int           `json:"policies"`
	Subjects int           `json:"subjects"`
	Workers  int           `json:"workers"`
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"-"`
	Lends    bool          `json:"local_tier"` // there is one
	CanMove  bool          `json:"-"`          // slots, and flush scripts
	CanKill  bool          `json:"-"`
}

// Tick is what was counted since the one before.
type Tick struct {
	At     time.Duration // since the start
	Length time.Duration
	tally.Counts
	Calls   int64         // to Redis
	Cluster []stage.Shard // none without Redis
	Hottest []Subject
}

// Subject is one that asks a lot.
type Subject struct {
	tally.Subject
	Name  string
	Shard int // that serves it; -1 without Redis
	Lease Lease
}

// Lease is the units of a subject that this process holds, under all policies.
type Lease struct {
	Units int64 // as they were lent
	Left  int64 // of them
}

// End is what it came to.
type End struct {
	Elapsed time.Duration
	Ledger  ledger.Ledger
	Sources []tally.Sources // of each of the ledger's lines
	Calls   int64           // to Redis
	Tier    *hotkey.Counts  // of the local tier; nil: there is none
	// FirstError is that of the calls that Ledger.Errors counts.
	FirstError error
	Done       stage.Done
	// Replies are the error replies that the servers sent meanwhile, by
	// their first word; nil: they can't be told from others'.
	Replies map[string]int64
}
