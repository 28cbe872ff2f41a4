package scripts

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
)

// Op is what a call does to a key.
type Op uint8

// The operations.
const (
	Take   Op = iota // of Count requests of Cost units each, charge as many as fit
	Charge           // charge Cost units whatever is left
	Peek             // read only
	Give             // take back what Receipt charged
	Reset            // use nothing any more
	Lease            // end leases, and lend what Ask wants
)

// Call is one call of a script about one key.
type Call struct {
	Plan  *Plan
	Op    Op
	Key   string // of a windowed plan: without the window's index
	Cost  int64  // units of a request, at least 1; Take and Charge
	Count int64  // requests asked for, at least 1; Take
	Nonce uint64 // unique to this charge; Take and Charge of a sliding_log

	// Callers is how many wait for the reply, where that matters; 0 means one.
	Callers int64
	// Elsewhere says that another key may be asked instead: a shard that refuses
	// the call for a moment is not waited for.
	Elsewhere bool

	// Window is the index of the window that the key is for, where the plan
	// is windowed. Who sends the call derives it from the shard's clock, by
	// InWindow; of a Give it is the receipt's.
	Window int64

	Receipt Receipt        // Give
	Lease   Ask            // Lease; the plan must be Leasable where units are wanted
	Clock   testclock.Time // tests only
}

// Ask is what a Lease call asks for.
type Ask struct {
	// Want is the units that the asker expects to need in half a lease time:
	// its demand x 1.2. 0: it only settles.
	Want int64
	// Offered is the units offered to the asker since it last asked, those
	// included that it refused by itself.
	Offered int64
	// Within is how long after it was sent a lease is still of use. Who sends
	// the call derives NotAfter from it; of 0, none.
	Within time.Duration
	// NotAfter is the µs by the shard's clock after which nothing is lent any
	// more; 0: no matter when.
	NotAfter int64
	// Settle is the leases that ended, 2 at most. Each settlement is sent once,
	// and never again where that may have arrived.
	Settle []Settlement
}

// MaxSettlements is the most that one call settles.
const MaxSettlements = 2

// Settlement gives back what is unspent of a lease that has ended. Two lease times
// after the lease was lent it is worth nothing any more, and is not to be sent:
// where the shard's clock stepped back, it might then pass for another.
type Settlement struct {
	At      int64 // Reply.Now of the call that lent it
	Size    int64 // Reply.Granted of the same
	Unspent int64 // units, 0 to Size
}

// InWindow returns the index of the window that the call is for, where the plan
// is windowed and the shard's clock shows now, µs: a Give goes to the window that
// the units were charged to, and so does a Lease that only settles.
func (c *Call) InWindow(now int64) int64 {
	switch {
	case c.Op == Give:
		return c.Window
	case c.settles():
		now = c.Lease.Settle[0].At
	}
	return now / c.Plan.limits[0].Period
}

// settles reports whether the call is a Lease that wants nothing.
func (c *Call) settles() bool {
	return c.Op == Lease && c.Lease.Want < 1 && len(c.Lease.Settle) > 0
}

// LentFor returns for how long what was lent at now, µs by the shard's clock, may
// be spent, counted from before the call was sent: a lease time, but never
// beyond the end of the window that it was charged to.
func (p *Plan) LentFor(now int64) time.Duration {
	l := p.limits[0]
	if l.Algorithm == rule.TokenBucket {
		return rule.LeaseTime
	}
	left := time.Duration(l.Period-now%l.Period) * time.Microsecond
	return min(left, rule.LeaseTime)
}

// Receipt says what a call charged.
type Receipt struct {
	Now     int64     // µs by the shard's clock
	Granted int64     // units
	At      []float64 // what the charge left behind, a limit each: rule.Charge.At
	Nonce   uint64
	// Offset is how many of the units charged under Nonce come before these, in
	// a sliding_log: one call may charge several requests, and each gives back
	// its own.
	Offset int64
}

// Script returns the script that runs the call.
func (c *Call) Script() *Script {
	log := c.Plan.is(rule.SlidingLog)
	switch {
	case c.Op == Peek && log:
		return peekLog
	case c.Op == Peek:
		return peek
	case c.Op == Lease:
		return lease
	case (c.Op == Give || c.Op == Reset) && log:
		return giveLog
	case c.Op == Give || c.Op == Reset:
		return give
	default:
		return c.Plan.take
	}
}

// AppendArgs appends the script's arguments to args.
func (c *Call) AppendArgs(args []any) []any {
	switch c.Op {
	case Peek:
		args = c.appendPeek(args)
	case Give, Reset:
		args = c.appendGive(args)
	case Lease:
		args = c.appendLease(args)
	default:
		args = c.appendTake(args)
	}
	if micros, ok := c.Clock.Micros(); ok {
		args = append(args, strconv.FormatInt(micros, 10))
	}
	return args
}

func (c *Call) appendTake(args []any) []any {
	args = append(args, c.Plan.args...)
	if c.Plan.Windowed() {
		args = append(args, strconv.FormatInt(c.Window, 10))
	}
	if c.Plan.is(rule.SlidingLog) {
		args = append(args, nonce(c.Nonce))
	}
	count := c.Count
	if c.Op == Charge {
		count = 0
	}
	_, clocked := c.Clock.Micros() // the clock comes last, behind both
	if c.Cost != 1 || count != 1 || clocked {
		args = append(args, strconv.FormatInt(c.Cost, 10))
	}
	if count != 1 || clocked {
		args = append(args, strconv.FormatInt(count, 10))
	}
	return args
}

func (c *Call) appendPeek(args []any) []any {
	switch {
	case c.Plan.is(rule.SlidingLog):
		return append(args, c.Plan.args...)
	case c.Plan.Windowed():
		return append(args, "window", c.Plan.args[1], strconv.FormatInt(c.Window, 10))
	case c.Plan.is(rule.GCRA):
		return append(args, "number", "0", "0")
	default:
		return append(args, "packed", "0", "0")
	}
}

func (c *Call) appendGive(args []any) []any {
	if c.Plan.is(rule.SlidingLog) {
		if c.Op == Reset {
			return append(args, "all", "0", "0")
		}
		entries := min(c.Receipt.Granted, c.Plan.limits[0].Rate)
		return append(append(args, nonce(c.Receipt.Nonce)), texts(entries, c.Receipt.Offset)...)
	}
	for i, limit := range c.Plan.giving {
		args = append(args, limit...)
		args = append(args, c.left(i))
	}
	if c.Op == Reset {
		return append(args, "all", "0")
	}
	return append(args, strconv.FormatInt(c.Receipt.Granted, 10), strconv.FormatInt(c.Receipt.Now, 10))
}

func (c *Call) appendLease(args []any) []any {
	args = append(args, c.Plan.giving[0]...)
	args = append(args, texts(c.Window, c.Lease.Want, c.Lease.Offered, c.Lease.NotAfter)...)
	for _, s := range c.Lease.Settle {
		args = append(args, texts(s.At, s.Size, s.Unspent)...)
	}
	return args
}

// left is what the charge left behind of limit i, whole and in decimal.
func (c *Call) left(i int) string {
	switch {
	case c.Plan.Windowed():
		return strconv.FormatInt(c.Window, 10)
	case c.Op == Reset:
		return "0"
	default:
		return strconv.FormatFloat(c.Receipt.At[i], 'f', 0, 64)
	}
}

// nonce is n as the eight bytes that begin a sliding_log's members.
func nonce(n uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return string(b[:])
}
