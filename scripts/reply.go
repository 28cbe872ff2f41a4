package scripts

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/shardlimit/shardlimit/internal/rule"
)

// Reply is what a script said.
type Reply struct {
	Now int64 // the shard's clock, µs since 1970
	// Granted is how many requests were granted (Charge: 1; Give and Reset: 1
	// where the key was written; Lease: units lent), or [OtherWindow].
	Granted int64
	// Next is how long, in µs and at most 250 ms, who asked for a lease must not
	// ask again, for another or for single requests: what it was not lent is
	// denied until then. Those who were told so together must not come together,
	// so each makes it up to a fifth longer or shorter by chance. With 0 it asks
	// when it needs to, and for single requests where nothing was lent; for a
	// lease then again in half a lease time.
	Next int64

	first rule.State
	rest  []rule.State
}

// OtherWindow is the Reply.Granted which says that nothing was done: the
// shard's clock lies in another window than the call's.
const OtherWindow = -1

// NewReply returns a reply that carries the states of a plan's limits, in
// order; Give and Reset carry none.
func NewReply(now, granted int64, states ...rule.State) Reply {
	r := Reply{Now: now, Granted: granted}
	if len(states) > 0 {
		r.first, r.rest = states[0], states[1:]
	}
	return r
}

// State returns what is stored of limit i.
func (r *Reply) State(i int) rule.State {
	if i == 0 {
		return r.first
	}
	return r.rest[i-1]
}

// ReplyError reports a reply that no script of this release sends.
type ReplyError struct {
	Script string
	Reply  string
}

func (e *ReplyError) Error() string {
	return fmt.Sprintf("script %s: unknown reply of %d bytes: %.64q", e.Script, len(e.Reply), e.Reply)
}

// Decode reads the script's reply. The error is a *ReplyError. It keeps nothing
// of reply, so that one which is made for it needs no memory of its own.
func (c *Call) Decode(reply string) (Reply, error) {
	r, ok := c.decode(reply)
	most := max(c.Count, 1)
	if c.Op == Lease {
		most = c.Lease.Want
	}
	if !ok || r.Now < 0 || r.Granted < OtherWindow || r.Granted > most || r.Next < 0 {
		return Reply{}, &ReplyError{Script: c.Script().Name, Reply: strings.Clone(reply)}
	}
	return r, nil
}

func (c *Call) decode(reply string) (Reply, bool) {
	switch c.Op {
	case Give, Reset:
		return decodeTail(reply)
	case Lease:
		return c.decodeLease(reply)
	default:
		return c.decodeStored(reply)
	}
}

// decodeStored reads a reply of what is stored and a tail.
func (c *Call) decodeStored(reply string) (Reply, bool) {
	switch {
	case len(c.Plan.limits) > 1 || c.Plan.short():
		return c.decodeSeveral(reply)
	case c.Plan.is(rule.TokenBucket):
		return c.decodeBucket(reply)
	case c.Plan.is(rule.SlidingWindow):
		return c.decodeWindow(reply)
	default:
		return c.decodeNumbers(reply)
	}
}

const (
	double  = 8
	compact = 12         // bytes of the short forms
	tail    = 2 * double // now, granted
	lending = 4 * double // lent, before, demand, asked
	mark    = 2 * double // reset, keep
	bucket  = 2 * double // used, at
	window  = 3 * double // index, previous, used
	entries = 3 * double // sliding_log: used, newest, leave
	low48   = 1<<48 - 1  // of the µs in a compact bucket
)

// LongestReply is the most bytes that a script replies with: of eight limits,
// each a window, after a reset.
const LongestReply = 8*window + mark + tail

// decodeTail reads a reply that is nothing but '<dd' now, granted.
func decodeTail(s string) (Reply, bool) {
	if len(s) != tail {
		return Reply{}, false
	}
	now, ok1 := whole(doubleAt(s, 0))
	granted, ok2 := whole(doubleAt(s, double))
	return Reply{Now: now, Granted: granted}, ok1 && ok2
}

// decodeLease reads a reply that ends with what no other one has: next.
func (c *Call) decodeLease(s string) (Reply, bool) {
	if len(s) < double {
		return Reply{}, false
	}
	next, whole := whole(doubleAt(s, len(s)-double))
	r, ok := c.decodeStored(s[:len(s)-double])
	r.Next = next
	return r, ok && whole
}

// split parts a reply into what is stored and its tail.
func split(s string) (stored string, r Reply, ok bool) {
	if len(s) < tail {
		return "", Reply{}, false
	}
	r, ok = decodeTail(s[len(s)-tail:])
	return s[:len(s)-tail], r, ok
}

func (c *Call) decodeBucket(s string) (Reply, bool) {
	if c.Op == Take && (len(s) == compact || len(s) == bucket) {
		// all was granted, at the very µs that is stored
		state := bucketState(s)
		now, ok := whole(state.At)
		return Reply{Now: now, Granted: c.Count, first: state}, ok && finite(state.Used)
	}
	stored, r, ok := split(s)
	switch len(stored) {
	case 0:
	case compact, bucket, bucket + mark, bucket + lending, bucket + lending + mark:
		r.first = withLending(bucketState(stored), stored, bucket)
		ok = ok && finite(r.first.Used, r.first.At, r.first.Lent, r.first.Before, r.first.Demand, r.first.Asked)
	default:
		ok = false
	}
	return r, ok
}

func bucketState(s string) rule.State {
	if len(s) != compact {
		return rule.State{Used: doubleAt(s, 0), At: doubleAt(s, double)}
	}
	low, high := uint48(s), uint48(s[6:])
	return rule.State{Used: float64(high >> 4), At: float64(high&15<<48 | low)}
}

func (c *Call) decodeWindow(s string) (Reply, bool) {
	stored, r, ok := split(s)
	switch len(stored) {
	case 0:
	case compact:
		r.first = rule.State{At: float64(uint48(stored)), Prev: uint24(stored[6:]), Used: uint24(stored[9:])}
	case window, window + mark, window + lending, window + lending + mark:
		r.first = withLending(windowState(stored), stored, window)
		ok = ok && finite(r.first.At, r.first.Prev, r.first.Used, r.first.Lent, r.first.Before, r.first.Demand, r.first.Asked)
	default:
		ok = false
	}
	return r, ok
}

// withLending adds to a state what a leased key stores from byte i on; other
// keys have no more than a mark there.
func withLending(state rule.State, s string, i int) rule.State {
	if len(s) < i+lending {
		return state
	}
	state.Lent, state.Before = doubleAt(s, i), doubleAt(s, i+double)
	state.Demand, state.Asked = doubleAt(s, i+2*double), doubleAt(s, i+3*double)
	return state
}

func windowState(s string) rule.State {
	return rule.State{At: doubleAt(s, 0), Prev: doubleAt(s, double), Used: doubleAt(s, 2*double)}
}

// decodeNumbers reads what gcra, fixed_window and sliding_log reply: their
// numbers as doubles, then the tail.
func (c *Call) decodeNumbers(s string) (Reply, bool) {
	stored, r, ok := split(s)
	switch {
	case c.Plan.is(rule.SlidingLog) && len(stored) == entries:
		r.first = rule.State{Used: doubleAt(s, 0), At: doubleAt(s, double), Leave: doubleAt(s, 2*double)}
	case c.Plan.is(rule.GCRA) && len(stored) == double:
		r.first = rule.State{At: doubleAt(s, 0)}
	case c.Plan.is(rule.FixedWindow) && len(stored) == double:
		r.first = rule.State{At: float64(c.Window), Used: doubleAt(s, 0)}
	default:
		return Reply{}, false
	}
	return r, ok && finite(r.first.At, r.first.Used, r.first.Leave)
}

func (c *Call) decodeSeveral(s string) (Reply, bool) {
	stored, r, ok := split(s)
	if !ok {
		return Reply{}, false
	}
	states := make([]rule.State, len(c.Plan.limits))
	if stored != "" {
		for i, l := range c.Plan.limits {
			size := severalSize(l.Algorithm)
			if len(stored) < size {
				return Reply{}, false
			}
			states[i] = severalState(l.Algorithm, stored)
			if !finite(states[i].At, states[i].Used, states[i].Prev) {
				return Reply{}, false
			}
			stored = stored[size:]
		}
	}
	return NewReply(r.Now, r.Granted, states...), stored == "" || len(stored) == mark
}

func severalSize(a rule.Algorithm) int {
	switch a {
	case rule.TokenBucket:
		return bucket
	case rule.GCRA:
		return double
	default:
		return window
	}
}

func severalState(a rule.Algorithm, s string) rule.State {
	switch a {
	case rule.TokenBucket:
		return bucketState(s[:bucket])
	case rule.GCRA:
		return rule.State{At: doubleAt(s, 0)}
	default:
		return windowState(s)
	}
}

func doubleAt(s string, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64([]byte(s[i : i+double])))
}

func uint48(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40
}

func uint24(s string) float64 {
	return float64(uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16)
}

// whole returns f where it is an integer that a double holds exactly.
func whole(f float64) (int64, bool) {
	return int64(f), math.Abs(f) < 1<<53 && f == math.Trunc(f)
}

func finite(fs ...float64) bool {
	for _, f := range fs {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return false
		}
	}
	return true
}
