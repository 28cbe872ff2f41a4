package memory

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

const (
	second = 1_000_000 // µs
	// trimmed is how many stale members a charge removes beside its own cost.
	trimmed = 64
	// pulled is how many members one call pulls back from the future.
	pulled = 1000
)

// member is one entry of a sliding_log, ordered as Redis orders a sorted set:
// by score, then by the bytes of nonce and number.
type member struct {
	score  int64 // µs
	nonce  uint64
	number int
}

func (m member) compare(o member) int {
	return cmp.Or(
		cmp.Compare(m.score, o.score),
		cmp.Compare(m.nonce, o.nonce),
		cmp.Compare(strconv.Itoa(m.number), strconv.Itoa(o.number)),
	)
}

// entryLog is a sliding_log's sorted set.
type entryLog []member

// do runs one call on the log, and leaves in state what it replied.
func (g *entryLog) do(c *scripts.Call, now int64, state *rule.State) (scripts.Reply, outcome) {
	limit := c.Plan.Limits()[0]
	switch c.Op {
	case scripts.Peek:
		return scripts.NewReply(now, 0, g.state(limit, now, 1)), unchanged
	case scripts.Give:
		return g.give(now, c.Receipt, min(c.Receipt.Granted, limit.Rate))
	case scripts.Reset:
		if len(*g) == 0 {
			return scripts.NewReply(now, 0), unchanged
		}
		return scripts.NewReply(now, 1), gone
	default:
		return g.take(c, limit, now, state)
	}
}

// first is the rank of the oldest member that the window still covers.
func (g *entryLog) first(limit rule.Limit, now int64) int {
	rank, _ := slices.BinarySearchFunc(*g, now-limit.Period, func(m member, edge int64) int {
		return cmp.Or(cmp.Compare(m.score, edge), -1)
	})
	return rank
}

func (g *entryLog) take(c *scripts.Call, limit rule.Limit, now int64, state *rule.State) (scripts.Reply, outcome) {
	late := g.pullBack(now)
	used := int64(len(*g) - g.first(limit, now))
	n, units, more := int64(1), min(c.Cost, limit.Rate), int64(1)
	if c.Op == scripts.Take {
		n = limit.Fits(rule.State{At: float64(now), Used: float64(used)}, now, c.Cost, c.Count)
		units, more = n*c.Cost, c.Cost
	}
	if n > 0 {
		g.add(now, c.Nonce, int(units))
		g.trim(limit, now, int(units))
	}
	if c.Op == scripts.Take && n == c.Count {
		more = 0
	}
	s := g.state(limit, now, more)
	if n == 0 && !late {
		return scripts.NewReply(now, 0, s), unchanged
	}
	*state = s
	return scripts.NewReply(now, n, s), written
}

// pullBack brings members more than a second ahead back to a second ahead.
func (g *entryLog) pullBack(now int64) bool {
	farthest := now + second
	ahead, _ := slices.BinarySearchFunc(*g, farthest, func(m member, edge int64) int {
		return cmp.Or(cmp.Compare(m.score, edge), -1)
	})
	if ahead == len(*g) {
		return false
	}
	for i := ahead; i < min(ahead+pulled, len(*g)); i++ {
		(*g)[i].score = farthest
	}
	slices.SortFunc(*g, member.compare)
	return true
}

func (g *entryLog) add(now int64, nonce uint64, units int) {
	added := make([]member, units)
	for i := range added {
		added[i] = member{score: now, nonce: nonce, number: i + 1}
	}
	slices.SortFunc(added, member.compare)
	rank, _ := slices.BinarySearchFunc(*g, added[0], member.compare)
	*g = slices.Insert(*g, rank, added...)
}

// trim drops what a charge has pushed out of the window, above the rate, and a
// bounded number of stale members.
func (g *entryLog) trim(limit rule.Limit, now int64, units int) {
	stale := g.first(limit, now)
	if excess := len(*g) - stale - int(limit.Rate); excess > 0 {
		*g = slices.Delete(*g, stale, stale+excess)
	}
	*g = slices.Delete(*g, 0, min(stale, units+trimmed))
}

// state counts the window and names the member that must leave before more
// units pass: none where more is 0, or where they do, or never will.
func (g *entryLog) state(limit rule.Limit, now, more int64) rule.State {
	stale := g.first(limit, now)
	s := rule.State{Used: float64(len(*g) - stale)}
	if len(*g) > 0 {
		s.At = float64((*g)[len(*g)-1].score)
	}
	over := len(*g) - stale + int(more) - int(limit.Rate)
	if more > 0 && over > 0 && stale+over <= len(*g) {
		s.Leave = float64((*g)[stale+over-1].score)
	}
	return s
}

func (g *entryLog) give(now int64, r scripts.Receipt, entries int64) (scripts.Reply, outcome) {
	before := len(*g)
	*g = slices.DeleteFunc(*g, func(m member) bool {
		number := int64(m.number) - r.Offset
		return m.nonce == r.Nonce && number > 0 && number <= entries
	})
	switch len(*g) {
	case before:
		return scripts.NewReply(now, 0), unchanged
	case 0:
		return scripts.NewReply(now, 1), gone
	default:
		return scripts.NewReply(now, 1), written
	}
}
