package scripts

import (
	"encoding/binary"
	"strconv"

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
)

// Call is one call of a script about one key.
type Call struct {
	Plan  *Plan
	Op    Op
	Key   string // of a windowed plan: without the window's index
	Cost  int64  // units of a request, at least 1; Take and Charge
	Count int64  // requests asked for, at least 1; Take
	Nonce uint64 // unique to this charge; Take and Charge of a sliding_log

	// Window is the index of the window that the key is for, where the plan
	// is windowed. Who sends the call derives it from the shard's clock; of a
	// Give it is the receipt's.
	Window int64

	Receipt Receipt        // Give
	Clock   testclock.Time // tests only
}

// Receipt says what a call charged.
type Receipt struct {
	Now     int64     // µs by the shard's clock
	Granted int64     // units
	At      []float64 // what the charge left behind, a limit each: rule.Charge.At
	Nonce   uint64
}

// Script returns the script that runs the call.
func (c *Call) Script() *Script {
	log := c.Plan.is(rule.SlidingLog)
	switch {
	case c.Op == Peek && log:
		return peekLog
	case c.Op == Peek:
		return peek
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
			return append(args, "all", "0")
		}
		entries := min(c.Receipt.Granted, c.Plan.limits[0].Rate)
		return append(args, nonce(c.Receipt.Nonce), strconv.FormatInt(entries, 10))
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
