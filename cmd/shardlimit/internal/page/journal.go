package page

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

// grade is what a change or a state means to an operator, and a class in the
// page's style.
type grade string

// The grades.
const (
	plain grade = "plain"
	good  grade = "good" // what was wrong isn't any more
	bad   grade = "bad"
)

// change is one change of state.
type change struct {
	at     time.Time
	grade  grade
	what   string
	shard  string // whose; "" for none
	detail string
}

const (
	journalCap = 100 // changes that are kept
	detailCap  = 500 // bytes of what is told of one
)

// journal keeps the latest changes. It is safe for concurrent use, and its zero
// value is empty.
type journal struct {
	mu    sync.Mutex
	total int
	ring  [journalCap]change // by number, modulo journalCap
}

func (j *journal) add(c change) {
	c.at = time.Now()
	c.detail = clip(c.detail, detailCap)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring[j.total%journalCap] = c
	j.total++
}

// latest returns what is kept, the latest first, and how many there ever were.
func (j *journal) latest() ([]change, int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := make([]change, min(j.total, journalCap))
	for i := range list {
		list[i] = j.ring[(j.total-1-i)%journalCap]
	}
	return list, j.total
}

func (j *journal) breakerChanged(c shardlimit.BreakerChange) {
	e := change{grade: bad, what: "Breaker opened", shard: c.Shard, detail: text(c.Err)}
	if !c.Open {
		e.grade, e.what, e.detail = good, "Breaker closed", ended(c.After, c.Gone)
	}
	j.add(e)
}

func (j *journal) fallbackChanged(c shardlimit.FallbackChange) {
	e := change{grade: bad, what: "Fallback began", shard: c.Shard, detail: text(c.Err)}
	if !c.InUse {
		e.grade, e.what = good, "Fallback ended"
		e.detail = ended(c.After, c.Gone) + ": " + unanswered(c.Unanswered)
	}
	j.add(e)
}

// ended says how something ended that lasted so long.
func ended(after time.Duration, gone bool) string {
	if gone {
		return "after " + span(after) + ", as the shard serves no slots any more"
	}
	return "after " + span(after)
}

// unanswered says what a shard didn't answer.
func unanswered(u shardlimit.Unanswered) string {
	return fmt.Sprintf("%s calls not sent, %s that never ran, %s unknown", figure(u.Open), figure(u.NeverRan), figure(u.Unknown))
}

func (j *journal) topologyChanged(shards []string) {
	j.add(change{grade: plain, what: "Topology changed", detail: fmt.Sprintf("%d primaries: %s", len(shards), strings.Join(shards, ", "))})
}

func (j *journal) misconfigured(shard string, err error) {
	j.add(change{grade: bad, what: "Misconfigured", shard: shard, detail: text(err)})
}

func (j *journal) configured(s reload.Status) {
	switch {
	case s.Fault != "":
		j.add(change{grade: bad, what: "Configuration refused", detail: s.Fault})
	case s.Generation == 1:
		j.add(change{grade: plain, what: "Started", detail: s.Path})
	default:
		j.add(change{grade: plain, what: "Configuration reloaded", detail: fmt.Sprintf("generation %d", s.Generation)})
	}
}

// text returns why, without the shard, which stands beside it.
func text(err error) string {
	down, unavailable := errors.AsType[*shardlimit.UnavailableError](err)
	switch {
	case err == nil:
		return ""
	case unavailable && down.Unknown:
		return down.Err.Error() + ", outcome unknown"
	case unavailable:
		return down.Err.Error()
	default:
		return err.Error()
	}
}
