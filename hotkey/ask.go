package hotkey

import (
	"context"
	"time"
)

// Asker asks Redis for leases, and settles them there.
type Asker interface {
	// Lease asks for units of key, and settles earlier leases on it, in one call:
	// all of it comes about, or nothing. It returns once that has an answer or can
	// have none any more. An error that wraps ErrNeverRan means that nothing
	// changed, nor will; after any other the units count as lent and the
	// settlements as sent: neither is ever asked for again. It must be safe for
	// concurrent use, though no two calls for a key are under way at once.
	Lease(ctx context.Context, key Key, ask Ask) (Grant, error)
}

// Ask is what a process asks for a key.
type Ask struct {
	Want    int64        // units, at most; 0: only settle
	Offered int64        // units asked of this process since its last ask, denials included
	Settle  []Settlement // leases that have ended, oldest first, at most MaxSettle; of a Spec that settles alone 1, and Want is 0
}

// MaxSettle is how many leases an ask settles at most: there are seldom two.
const MaxSettle = 2

// Settlement says what became of a lease. It is sent at most once.
type Settlement struct {
	Token   Token
	Units   int64 // that were lent
	Unspent int64 // of them, to be given back
}

// Token is what Redis knows a lease by, and what a refund there needs. The tier
// carries it, and reads nothing in it.
type Token struct {
	At   int64   // µs by the shard's clock, when it was lent
	Mark float64 // what the charge left behind, as the script's receipts have it
}

// Grant is what Redis says to an Ask.
type Grant struct {
	Units int64 // lent, at most what was wanted
	Token Token // of what was lent
	// Until is the time from the script's now to the end of the window that the
	// units must be spent in; 0: no window. Where nothing was lent, it is asked
	// for again then at the latest.
	Until time.Duration
	// Next is when to ask again: until then, give or take a fifth, this process
	// has had its share, and an empty lease denies. More than DenialTTL counts
	// as that. 0: demand is below the rate, and an empty lease says nothing.
	Next time.Duration
	// Late is the units of the settlements that came too late to be given back.
	Late int64
	// NoLease is why nothing was lent, as far as can be told; Inspect says so.
	NoLease Reason

	Limit      int           // index of the limit that binds
	Remaining  int64         // units left in Redis
	ResetAfter time.Duration // until nothing is used any more
}
