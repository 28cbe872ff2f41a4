package memory

import (
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// lease ends the leases that the call settles, and lends what it asks for. Of an
// ask that gets nothing the entry keeps what was offered, and nothing else.
func (e *entry) lease(c *scripts.Call, l rule.Limit, now int64) (scripts.Reply, outcome) {
	cur, late := e.states[0], false
	if !c.Plan.Windowed() { // a window's own key is not brought to another window
		cur, late = l.Current(cur, now)
	}
	settled := e.settled(c.Lease.Settle, l, cur, now)
	want := c.Lease.Want
	if c.Lease.NotAfter > 0 && now > c.Lease.NotAfter {
		want = 0
	}
	next, loan := l.Lend(settled, now, want, c.Lease.Offered)
	end := unchanged
	if loan.Units > 0 || late || settled != cur || c.Lease.Offered > 0 {
		e.states[0], end = next, written
	}
	reply := e.reply(c, now, loan.Units)
	reply.Next = loan.Next
	return reply, end
}

// settled returns s after the settlements, except of leases from before a reset.
func (e *entry) settled(settle []scripts.Settlement, l rule.Limit, s rule.State, now int64) rule.State {
	for _, lease := range settle {
		if e.keep == 0 || lease.At > e.reset {
			s = l.Settle(s, now, lease.At, lease.Size, lease.Unspent)
		}
	}
	return s
}
