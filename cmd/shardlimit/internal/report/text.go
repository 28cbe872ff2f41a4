// Package report shows a demo on a terminal, or to scripts.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// Text shows a demo as plain lines.
type Text struct {
	w     io.Writer
	lends bool // there is a local tier to tell of
	ticks int
}

// NewText returns a Text that writes to w.
func NewText(w io.Writer) *Text { return &Text{w: w} }

// headEvery is after how many ticks the columns' names are repeated.
const headEvery = 20

// printf writes to a terminal: where that is gone, there's nobody to tell.
func (t *Text) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.w, format, args...) }

// Opening says what begins now.
func (t *Text) Opening(plan string) { t.printf("%s ...\n", plan) }

// Scene says what the demo plays with.
func (t *Text) Scene(s demo.Scene) {
	t.lends = s.Lends
	t.printf("%s, ready after %.1f s\n", s.Where, s.OpenedIn.Seconds())
	if s.Note != "" {
		t.printf("%s\n", s.Note)
	}
	t.printf("%d policies, %s subjects that ask by Zipf's law, %d workers, %v (--seed=%d)\n\n",
		s.Policies, Group(int64(s.Subjects)), s.Workers, s.Duration, s.Seed)
}

// Event tells of something that was done to the cluster.
func (t *Text) Event(at time.Duration, text string) {
	t.printf("%5.1f s  -- %s\n", at.Seconds(), text)
}

// Tick shows what was counted in one tick. What is left of the last second is
// no line's worth where it's too short.
func (t *Text) Tick(k demo.Tick) {
	if k.Length < 100*time.Millisecond {
		return
	}
	if t.ticks%headEvery == 0 {
		t.head()
	}
	t.ticks++
	by := k.Sources()
	t.tick(fmt.Sprintf("%5.1f s", k.At.Seconds()), Group(PerSecond(k.Decisions(), k.Length)), Group(k.Allowed), Group(k.Denied),
		Percent(by.Redis, by.All()), Percent(by.Lease, by.All()), Percent(by.Denial, by.All()),
		Short(k.Latency(50)), Short(k.Latency(99)), Group(k.Fallback), Group(k.Errors))
}

func (t *Text) head() {
	if t.lends {
		t.printf("%38s%24s\n", "", "---- decided by ----")
	}
	t.tick("", "decisions/s", "allowed", "denied", "redis", "lease", "denial", "p50", "p99", "fallback", "errors")
}

// tick prints a line of a tick: when, how much, who decided, how it went.
func (t *Text) tick(at, decisions, allowed, denied, redis, lease, denial, p50, p99, fallback, errors string) {
	t.printf("%7s%13s%9s%9s", at, decisions, allowed, denied)
	if t.lends {
		t.printf("%8s%8s%8s", redis, lease, denial)
	}
	t.printf("%9s%9s%10s%8s\n", p50, p99, fallback, errors)
}

// End shows the ledger.
func (t *Text) End(e demo.End) {
	t.printf("\nLedger of %.1f s: what was admitted, against the exact promise to each subject\n\n", e.Elapsed.Seconds())
	t.lines(e.Ledger.Lines)
	t.printf("\n%s", legend)
	t.sources(e)
	if text := met(e.Done, e.Replies); text != "" {
		t.printf("\n%s\n", text)
	}
	if e.Done.Kills > 0 {
		t.printf("\n%s\n", lost(e.Done, e.Ledger))
	}
	if n := e.Ledger.Forgotten; n > 0 {
		t.printf("\n%s units were denied because leases could not give back as many: they count as spent.\n", Group(n))
	}
	if e.FirstError != nil {
		t.printf("\nthe first error: %v\n", e.FirstError)
	}
	verdict := "every promise was kept"
	if !e.Ledger.Kept() {
		verdict = "A PROMISE WAS BROKEN"
	}
	t.printf("\n")
	t.edge(e)
	t.printf("over %d, under %d, errors %d: %s\n", e.Ledger.Over, e.Ledger.Under, e.Ledger.Errors, verdict)
}

const legend = `  over   units admitted beyond the limit: in each subject's run, and in any span of the 100 hottest
  under  units denied although there was room: in the limit, and in hot buckets' refill; leases
         may hold up to a quarter of a limit meanwhile
  exact  subjects for whom a single count was right: neither more nor less
`

func (t *Text) lines(lines []ledger.Line) {
	limits, width := make([]string, len(lines)), len("limits")
	for i, l := range lines {
		limits[i] = strings.Join(l.Limits, " and ")
		width = max(width, len(limits[i]))
	}
	t.line(width, "", "limits", "decisions", "admitted", "fallback", "subjects", "exact", "over", "under")
	for i, l := range lines {
		t.line(width, l.Policy, limits[i], Group(l.Asked), Group(l.Admitted), Group(l.Unknown),
			Group(int64(l.Subjects)), Group(int64(l.Exact)), Group(l.Over), Group(l.Under))
	}
}

// line prints the name and the limits, which are width wide, and the figures to
// their right.
func (t *Text) line(width int, name, limits string, figures ...string) {
	t.printf("  %-8s%-*s", name, width, limits)
	for i, f := range figures {
		t.printf("%*s", [...]int{11, 11, 10, 10, 8, 6, 7}[i], f)
	}
	t.printf("\n")
}

// met says what was done to the cluster and which refusals that brought, none
// of which ran anything. ERR isn't one of them: new connections ask for what
// older servers don't know, and a decision that meets it is among the errors.
func met(d stage.Done, replies map[string]int64) string {
	if replies == nil {
		return ""
	}
	var refusals []string
	for _, name := range slices.Sorted(maps.Keys(replies)) {
		if name != "ERR" {
			refusals = append(refusals, name+" "+Group(replies[name]))
		}
	}
	if len(refusals) == 0 {
		refusals = []string{"nothing"}
	}
	return fmt.Sprintf("slots moved %s, scripts flushed on a node %d times; met on the way: %s",
		Group(int64(d.Slots)), d.Flushes, strings.Join(refusals, ", "))
}

// lost says what the loss of primaries explains.
func lost(d stage.Done, l ledger.Ledger) string {
	who, whose := "a primary was killed", "its replica"
	if d.Kills > 1 {
		who, whose = fmt.Sprintf("%d primaries were killed", d.Kills), "their replicas"
	}
	return fmt.Sprintf("%s: over at most what %s had not received, so up to %s units; seen: %s.\n"+
		"Meanwhile the policies' own mode answered, counted apart as fallback.", who, whose, Group(l.AtRisk), Group(l.Lost))
}
