package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/shardlimit/shardlimit/internal/drill"
)

// table writes a line for each scenario, then what failed.
func table(w io.Writer, r *result) error {
	if _, err := io.WriteString(w, heading(r)); err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(out, rows(r)); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if _, err := io.WriteString(w, legend+failures(r)); err != nil {
		return err
	}
	return tableAlone(w, r)
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

func rows(r *result) string {
	var rows strings.Builder
	rows.WriteString("scenario\tcalls\tin time\tstalled\tby mode\tunknown\terrors\tp99.9 +\tlongest +\t" +
		"others' p99\tonce open\tafter promotion\tover\tat risk\tdouble\t\t\n")
	for i, report := range r.Reports {
		rows.WriteString(strings.Join(columns(report, r.Bounds[i]), "\t") + "\t\n")
	}
	return rows.String()
}

func columns(r *drill.Report, bounds []bound) []string {
	a := &r.Account
	return []string{
		r.Name, fmt.Sprint(a.Calls), percent(a.InTime, a.Calls+a.Skipped), fmt.Sprintf("%.0f ms", ms(r.Stalled)),
		fmt.Sprint(a.NeverRan + a.Unknown), fmt.Sprint(a.Unknown), fmt.Sprint(a.Errors),
		value(bounds, p999Over, "%.1f ms"),
		value(bounds, maxOver, "%.1f ms"),
		value(bounds, othersP99, "%.2fx"),
		value(bounds, openP99, "%.3f ms"),
		value(bounds, promotion, "%.0f ms"),
		fmt.Sprint(a.Lost + a.Over), fmt.Sprint(a.AtRisk), fmt.Sprint(a.Double), verdict(r, bounds),
	}
}

func percent(part, whole int) string {
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(max(1, whole)))
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
	for _, b := range bounds {
		if !b.kept() {
			return "late"
		}
	}
	return "PASS"
}

// failures says what is beyond its bound, a line each.
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
	return lines.String()
}
