package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Verdict is how bad a finding is.
type Verdict int

// The verdicts.
const (
	Fine    Verdict = iota
	Warning         // hurts one day, or could not be read
	Failure         // hurts now
)

// String returns the verdict in a word.
func (v Verdict) String() string { return [...]string{"fine", "warning", "failure"}[v] }

// MarshalText returns the verdict's String.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Finding is what a check found.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Read    string  `json:"read"`             // what was seen
	Advice  string  `json:"advice,omitempty"` // what to do, unless it's fine
}

func fine(format string, args ...any) Finding { return Finding{Read: fmt.Sprintf(format, args...)} }

// unread is the finding of a check that could not look.
func unread(err error) Finding {
	return Finding{
		Verdict: Warning, Read: fmt.Sprintf("could not be read: %v", err),
		Advice: "run the doctor as a user who may read it, or look by other means",
	}
}

// Report is what all checks found.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Worst returns the worst of the verdicts.
func (r Report) Worst() Verdict {
	worst := Fine
	for _, f := range r.Findings {
		worst = max(worst, f.Verdict)
	}
	return worst
}

// Text writes the report as a table, and an advice below each finding that
// isn't fine.
func (r Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	count := map[Verdict]int{}
	for _, f := range r.Findings {
		count[f.Verdict]++
		line(t, f.Verdict.String(), f.Check, f.Read)
		if f.Advice != "" {
			line(t, "", "", "-> "+f.Advice)
		}
	}
	line(t)
	line(t, fmt.Sprintf("%d fine, %d warnings, %d failures", count[Fine], count[Warning], count[Failure]))
	return t.Flush()
}

// line writes the cells of a line, which end up in t alone until its Flush.
func line(t *tabwriter.Writer, cells ...string) {
	for i, cell := range cells {
		if i > 0 {
			cell = "\t" + cell
		}
		_, _ = io.WriteString(t, cell)
	}
	_, _ = io.WriteString(t, "\n")
}

// JSON writes the report as an object, with the worst verdict.
func (r Report) JSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(struct {
		Worst Verdict `json:"worst"`
		Report
	}{r.Worst(), r})
}
