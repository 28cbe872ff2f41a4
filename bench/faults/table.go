package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit/bench/internal/table"
	"github.com/shardlimit/shardlimit/internal/drill"
)

// asTable writes a line for each scenario, then what failed, then what was
// measured alone.
func asTable(w io.Writer, r *result) error {
	err := errors.Join(write(w, heading(r)), scenarios(r).Print(w), write(w, legend+failures(r)))
	if len(r.Alone) == 0 {
		return err
	}
	return errors.Join(err, write(w, "\n"), alone(r).Print(w))
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func heading(r *result) string {
	return fmt.Sprintf("%s, 3 shards with a replica each, node timeout 1 s; %d calls/s over %d keys by %d limiters of one process, timeout %v\n",
		r.Servers, r.Options.Rate, r.Options.Subjects, r.Options.Limiters, r.Options.Timeout) +
		fmt.Sprintf("control: p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, longest %.2f ms of %d calls\n\n",
			ms(r.Control.P50), ms(r.Control.P99), ms(r.Control.P999), ms(r.Control.Max), r.Control.Calls)
}

const legend = `
  in time          calls made within 5 ms of when they were due
  stalled          the longest that this process wasn't let to make the next call: beyond a few ms no time here means much
  by mode          calls that the failure mode answered
  p99.9 +, longest + over the control's; others' p99: of shards not hit, to the control's
  once open        p99 of calls made once a breaker was open
  after promotion  until the last call of the shard without an answer from Redis
  over, at risk    units whose charge is gone, or admitted again; and the bound, what the fault may have lost
`

func scenarios(r *result) *table.Table {
	t := table.New("scenario", "calls", "in time", "stalled", "by mode", "unknown", "errors", "p99.9 +", "longest +",
		"others' p99", "once open", "after promotion", "over", "at risk", "double", "")
	for i, report := range r.Reports {
		t.Addf("%s", strings.Join(columns(report, r.Bounds[i]), "\t"))
	}
	return t
}

// alone returns a line for each figure of what was measured by one caller.
func alone(r *result) *table.Table {
	t := table.New("one caller", "figure", "at most", "")
	for _, b := range r.Alone {
		t.Addf("%s\t%.1f\t%.0f\t%s", b.Name, b.Value, b.Most, passed(b.kept()))
	}
	return t
}

func columns(r *drill.Report, bounds []bound) []string {
	a := &r.Account
	return []string{
		r.Name, fmt.Sprint(a.Calls), percent(a.InTime, a.Calls+a.Skipped), fmt.Sprintf("%.0f ms", ms(r.Stalled)),
		fmt.Sprint(a.NeverRan + a.Unknown), fmt.Sprint(a.Unknown), fmt.Sprint(a.Errors),
		value(bounds, p999Over, "%.1f ms"),
		value(bounds, maxOver, "%.1f ms"),
		value(bounds, othersP99, "%.2f x"),
		value(bounds, openP99, "%.3f ms"),
		value(bounds, promotion, "%.0f ms"),
		fmt.Sprint(a.Lost + a.Over), fmt.Sprint(a.AtRisk), fmt.Sprint(a.Double), verdict(r, bounds),
	}
}

func percent(part, whole int) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(1, whole)))
}

// value returns the figure of that name, "-" where there is none.
func value(bounds []bound, name, format string) string {
	for _, b := range bounds {
		if b.Name == name {
			return fmt.Sprintf(format, b.Value)
		}
	}
	return "-"
}

// verdict is FAIL where a promise was broken that holds anywhere, late where
// only a time was.
func verdict(r *drill.Report, bounds []bound) string {
	if len(r.Broken) > 0 {
		return "FAIL"
	}
	return passed(!slices.ContainsFunc(bounds, func(b bound) bool { return !b.kept() }))
}

func passed(kept bool) string {
	if kept {
		return "PASS"
	}
	return "late"
}

// failures says what is beyond its bound, a line each; nothing if all is within.
func failures(r *result) string {
	var lines strings.Builder
	for i, report := range r.Reports {
		for _, broken := range report.Broken {
			fmt.Fprintf(&lines, "FAIL  %s: %s\n", report.Name, broken)
		}
		for _, missed := range report.Missed {
			fmt.Fprintf(&lines, "note  %s: %s\n", report.Name, missed)
		}
		for _, b := range r.Bounds[i] {
			if !b.kept() && !b.Exact {
				fmt.Fprintf(&lines, "late  %s: %s: %.2f, at most %.2f\n", report.Name, b.Name, b.Value, b.Most)
			}
		}
		if report.Replaced > 0 {
			fmt.Fprintf(&lines, "note  %s: %d shards failed over by themselves, the machine stood still\n", report.Name, report.Replaced)
		}
	}
	if lines.Len() == 0 {
		return ""
	}
	return "\n" + lines.String()
}
