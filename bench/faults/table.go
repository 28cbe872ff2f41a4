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
	fmt.Fprintf(w, "%s, 3 shards with a replica each, node timeout 1 s; %d calls/s over %d keys by %d limiters of one process, timeout %v\n",
		r.Servers, r.Options.Rate, r.Options.Subjects, r.Options.Limiters, r.Options.Timeout)
	fmt.Fprintf(w, "control: p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, longest %.2f ms of %d calls\n\n",
		ms(r.Control.P50), ms(r.Control.P99), ms(r.Control.P999), ms(r.Control.Max), r.Control.Calls)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "scenario\tcalls\tin time\tby mode\tunknown\terrors\tp99.9 +\tlongest +\tothers' p99\tonce open\tafter promotion\tover\tat risk\tdouble\t\t")
	for i, report := range r.Reports {
		fmt.Fprintln(out, line(report, r.Bounds[i]))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\n", legend)
	failures(w, r)
	return nil
}

const legend = `  by mode          calls that the failure mode answered: never ran, or unknown
  p99.9 +, longest + over the control's; others' p99: of shards not hit, to the control's
  once open        p99 of calls that met an open breaker
  after promotion  until the last call of the shard without an answer from Redis
  over, at risk    units whose charge is gone, or admitted again; and the bound, what the fault may have lost
`

func line(r *drill.Report, bounds []bound) string {
	a := &r.Account
	columns := []string{
		r.Name, fmt.Sprint(a.Calls), percent(a.InTime, a.Calls+a.Skipped), fmt.Sprint(a.NeverRan + a.Unknown), fmt.Sprint(a.Unknown), fmt.Sprint(a.Errors),
		value(bounds, "p99.9 over the control's, ms", "%.1f ms"),
		value(bounds, "longest over the control's, ms", "%.1f ms"),
		value(bounds, "other shards' p99 to the control's", "%.2fx"),
		value(bounds, "p99 once the breaker is open, ms", "%.3f ms"),
		value(bounds, "without failures after the promotion, ms", "%.0f ms"),
		fmt.Sprint(a.Lost + a.Over), fmt.Sprint(a.AtRisk), fmt.Sprint(a.Double), verdict(r, bounds),
	}
	return strings.Join(columns, "\t") + "\t"
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

// failures says what is beyond its bound.
func failures(w io.Writer, r *result) {
	for i, report := range r.Reports {
		for _, broken := range report.Broken {
			fmt.Fprintf(w, "FAIL  %s: %s\n", report.Name, broken)
		}
		for _, b := range r.Bounds[i] {
			if !b.kept() && !b.Exact {
				fmt.Fprintf(w, "late  %s: %s: %.2f, at most %.2f\n", report.Name, b.Name, b.Value, b.Most)
			}
		}
		if report.Replaced > 0 {
			fmt.Fprintf(w, "note  %s: %d shards failed over by themselves, the machine stood still\n", report.Name, report.Replaced)
		}
	}
}
