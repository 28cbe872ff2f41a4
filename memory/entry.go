package memory

import (
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// outcome is what a call did to its entry.
type outcome uint8

const (
	unchanged outcome = iota
	written
	gone
)

// do runs one call on the entry; found says whether the store held it.
func (e *entry) do(c *scripts.Call, now int64, found bool) (scripts.Reply, outcome) {
	limits := c.Plan.Limits()
	if limits[0].Algorithm == rule.SlidingLog {
		return e.log.do(c, now, &e.states[0])
	}
	switch c.Op {
	case scripts.Peek:
		return e.reply(c, now, 0), unchanged
	case scripts.Give:
		if !found || e.keep > 0 && c.Receipt.Now <= e.reset {
			return scripts.NewReply(now, 0), unchanged
		}
		return e.give(limits, c.Plan.Windowed(), now, c.Receipt)
	case scripts.Reset:
		if !found {
			return scripts.NewReply(now, 0), unchanged
		}
		return e.reset0(limits, now)
	case scripts.Lease:
		return e.lease(c, limits[0], now)
	default:
		return e.take(c, limits, now)
	}
}

// take charges as many requests as fit in every limit. The reply carries what
// is stored then: where nothing was charged, the states as they were found.
func (e *entry) take(c *scripts.Call, limits []rule.Limit, now int64) (scripts.Reply, outcome) {
	n, late := c.Count, false
	current := make([]rule.State, len(limits))
	for i, l := range limits {
		cur, pulled := l.Current(e.states[i], now)
		current[i], late = cur, late || pulled
		if c.Op == scripts.Take {
			n = min(n, l.Fits(cur, now, c.Cost, c.Count))
		}
	}
	if c.Op == scripts.Charge {
		n = 1
	}
	if n == 0 && !late {
		return e.reply(c, now, 0), unchanged
	}
	if n > 0 {
		for i, l := range limits {
			current[i] = l.Add(current[i], now, n*c.Cost)
		}
	}
	e.states = current
	return e.reply(c, now, n), written
}

// reply returns one that carries what the entry holds. A window's own key tells
// no more than its units.
func (e *entry) reply(c *scripts.Call, now, n int64) scripts.Reply {
	if c.Plan.Windowed() {
		return scripts.NewReply(now, n, rule.State{At: e.states[0].At, Used: e.states[0].Used})
	}
	return scripts.NewReply(now, n, e.states...)
}

func (e *entry) give(limits []rule.Limit, windowed bool, now int64, r scripts.Receipt) (scripts.Reply, outcome) {
	states := make([]rule.State, len(limits))
	for i, l := range limits {
		cur := e.states[i]
		if !windowed { // a window's own key is not brought to another window
			cur, _ = l.Current(cur, now)
		}
		states[i] = l.Give(cur, now, rule.Charge{Now: r.Now, Granted: r.Granted, At: r.At[i]})
	}
	e.states = states
	return scripts.NewReply(now, 1), written
}

// reset0 uses nothing any more. The mark of the reset outlives what was used,
// except of a lone gcra, which has no room for one.
func (e *entry) reset0(limits []rule.Limit, now int64) (scripts.Reply, outcome) {
	if len(limits) == 1 && limits[0].Algorithm == rule.GCRA {
		return scripts.NewReply(now, 1), gone
	}
	states := make([]rule.State, len(limits))
	for i, l := range limits {
		cur, _ := l.Current(e.states[i], now)
		e.keep = max(e.keep, l.Ends(cur, now))
		states[i] = l.Unused(cur, now)
	}
	e.reset, e.states = now, states
	return scripts.NewReply(now, 1), written
}
