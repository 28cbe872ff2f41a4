package page

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

// view is all that the page shows, in its order.
type view struct {
	Name     string
	Door     bool // the reader came in by the token, and may leave
	Now      stamp
	Up       time.Duration
	Health   health
	Headline []headline
	Sources  []source
	Local    bool // there are no shards: this process decides
	Shards   []shard
	Hot      hot
	Policies policies
	Changes  []changed
	Before   int // changes that aren't kept
	Config   configuration
}

// view returns what the page shows now.
func (p *Page) view(now time.Time) *view {
	snapshot, status := p.Inspect(), p.Status()
	v := &view{
		Name: p.Name, Door: p.Token != "", Now: stamp{now, now}, Up: now.Sub(p.started), Local: snapshot.HotKeys == nil,
		Hot: newHot(snapshot.HotKeys), Config: newConfiguration(status, now),
	}
	p.Record.traffic.read(func(past *past) {
		v.Sources = newSources(past, v.Local)
		v.Headline = newHeadline(past, &snapshot)
		v.Shards = newShards(past, snapshot.Shards, now)
		v.Policies = newPolicies(past, p.Config().Rules)
	})
	v.Changes, v.Before = changes(&p.Record.journal, now)
	v.Health = v.health(status)
	return v
}

// health is how all is, in a line.
type health struct {
	Grade grade
	Text  string
}

func (v *view) health(status reload.Status) health {
	shards, away, lost := 0, 0, false
	for _, s := range v.Shards {
		switch {
		case s.Address == topology:
			lost = true
			continue
		case s.Open || s.Fallback:
			away++
		}
		shards++
	}
	switch {
	case lost && shards == 0, away > 0 && away == shards:
		return health{bad, "No shard answers: the failure modes decide"}
	case away > 0:
		return health{bad, fmt.Sprintf("Failure modes decide at %d of %d shards", away, shards)}
	case lost:
		return health{bad, "Who serves what can't be found out: failure modes decide some calls"}
	case status.Fault != "":
		return health{bad, "The configuration file is at fault: the last good one holds"}
	case v.Local:
		return health{plain, "Deciding in this process: no Redis is named"}
	case len(v.Shards) == 0:
		return health{plain, "No Redis yet: nothing was asked of it"}
	default:
		return health{good, "All shards answer"}
	}
}

// headline is one of the figures that come first.
type headline struct{ Name, Value, Unit, Note string }

func newHeadline(past *past, s *shardlimit.Snapshot) []headline {
	local := past.now(shardlimit.FromLease, shardlimit.FromDenial)
	fallback := past.now(shardlimit.FromFallback)
	all := past.now(shardlimit.FromRedis, shardlimit.FromMemory).plus(local).plus(fallback)
	n := s.Counters
	list := []headline{
		{"Decisions", rate(all.all()), "/s", figure(n.Allowed+n.Denied+n.FallbackAllowed+n.FallbackDenied) + " since the start"},
		{"Denied", percent(all.denied, all.all()), "", figure(n.Denied+n.FallbackDenied) + " since the start"},
		{"No decision", rate(past.now(noSource).all()), "/s", figure(n.Errors) + " since the start"},
	}
	if s.HotKeys == nil {
		return list
	}
	return append(list,
		headline{"Without Redis", percent(local.all(), all.all()), "", "by leases and known denials"},
		headline{"Fallback", rate(fallback.all()), "/s", figure(n.Unknown) + " calls of unknown outcome"},
		headline{"Lent", figure(s.HotKeys.Held), "units left", "leases: " + figure(int64(s.HotKeys.Leases))},
	)
}

// now returns how much these sources decide of late, together.
func (p *past) now(from ...shardlimit.Source) (sum rates) {
	for _, source := range from {
		sum = sum.plus(p.sources[source].now())
	}
	return sum
}

// source is what a source of decisions did of late.
type source struct {
	Name, Note   string
	Rate, Denied string
	Chart        chart
}

var sourceNotes = [sources]string{
	noSource:                "the caller left, or Redis is set up wrongly",
	shardlimit.FromRedis:    "asked Redis",
	shardlimit.FromMemory:   "this process",
	shardlimit.FromFallback: "the failure modes, while a shard is away",
	shardlimit.FromLease:    "units charged in Redis before",
	shardlimit.FromDenial:   "what Redis refused a moment ago",
}

// newSources returns what may decide here, and what came to no decision.
func newSources(past *past, local bool) []source {
	order := []shardlimit.Source{shardlimit.FromRedis, shardlimit.FromLease, shardlimit.FromDenial, shardlimit.FromFallback, noSource}
	if local {
		order = []shardlimit.Source{shardlimit.FromMemory, noSource}
	}
	var list []source
	for _, from := range order {
		s := &past.sources[from]
		now := s.now()
		one := source{from.String(), sourceNotes[from], rate(now.all()), percent(now.denied, now.all()), newChart(s, 36)}
		if from == noSource {
			one.Name, one.Denied = "none", ""
		}
		list = append(list, one)
	}
	return list
}

// changed is a change as the page shows it.
type changed struct {
	At                  stamp
	Grade               grade
	What, Shard, Detail string
}

func changes(j *journal, now time.Time) (list []changed, before int) {
	kept, total := j.latest()
	for _, c := range kept {
		list = append(list, changed{stamp{c.at, now}, c.grade, c.what, c.shard, visible(c.detail)})
	}
	return list, total - len(kept)
}

// configuration is how the configuration came to be.
type configuration struct {
	reload.Status
	Since, FaultAt stamp
	Fault          string
}

func newConfiguration(s reload.Status, now time.Time) configuration {
	c := configuration{Status: s, Since: stamp{s.Since, now}, Fault: visible(clip(s.Fault, 8*detailCap))}
	if s.FaultAt != nil {
		c.FaultAt = stamp{*s.FaultAt, now}
	}
	return c
}

// stamp is a time, as who reads it now wants it.
type stamp struct{ at, now time.Time }

// Machine returns the time for programs.
func (s stamp) Machine() string { return s.at.UTC().Format(time.RFC3339Nano) }

// Clock returns the time of day, with the day where it's another.
func (s stamp) Clock() string {
	at, now := s.at.UTC(), s.now.UTC()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05")
	}
	return at.Format("2006-01-02 15:04:05")
}

// Ago returns how long ago it was.
func (s stamp) Ago() string { return span(s.now.Sub(s.at)) }
