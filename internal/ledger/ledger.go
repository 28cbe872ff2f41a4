package ledger

import (
	"iter"
)

// Ledger is the judgment of a whole run.
type Ledger struct {
	Lines []Line `json:"policies"`
	Over  int64  `json:"over"`
	Under int64  `json:"under"`
	// AtRisk is the units that killed primaries admitted and whose charge their
	// replicas may not have; Lost is how many of them were admitted again.
	AtRisk int64 `json:"at_risk,omitempty"`
	Lost   int64 `json:"lost,omitempty"`
	// Forgotten is the units that were denied because others of as many were lent,
	// never spent, and could not be given back.
	Forgotten int64 `json:"forgotten,omitempty"`
	// Errors is how many calls ended without a decision.
	Errors int64 `json:"errors"`
}

// Line is the judgment of one policy: its accounts' sums.
type Line struct {
	Policy   string   `json:"policy"`
	Limits   []string `json:"limits"`
	Subjects int      `json:"subjects"` // that asked
	Asked    int64    `json:"asked"`
	Admitted int64    `json:"admitted"`
	Unknown  int64    `json:"unknown"`
	// Exact is for how many subjects one count alone was right.
	Exact int   `json:"exact"`
	Over  int64 `json:"over"`
	Under int64 `json:"under"`
}

// Kept reports whether every promise was kept. That of a killed primary allows
// for what is Lost.
func (l Ledger) Kept() bool { return l.Over == 0 && l.Under == 0 && l.Errors == 0 }

// Enter adds a policy's accounts.
func (l *Ledger) Enter(policy string, t Terms, accounts iter.Seq[Account]) {
	line := Line{Policy: policy}
	for _, limit := range t.Limits {
		line.Limits = append(line.Limits, limit.String())
	}
	for a := range accounts {
		v := Judge(t, a)
		line.add(a, v)
		l.AtRisk += a.AtRisk
		l.Lost += v.Lost
	}
	l.Lines = append(l.Lines, line)
	l.Over += line.Over
	l.Under += line.Under
}

// Forget says that so many units were lent and neither spent nor given back: a
// reply was lost, or the process stood still until it was too late. They count
// as spent, so as many may be denied and are not Under. Lines are left as
// they are.
func (l *Ledger) Forget(units int64) {
	l.Forgotten = min(units, l.Under)
	l.Under -= l.Forgotten
}

func (l *Line) add(a Account, v Verdict) {
	if a.Asked+a.Unknown == 0 {
		return
	}
	l.Subjects++
	l.Asked += a.Asked
	l.Admitted += a.Admitted
	l.Unknown += a.Unknown
	l.Over += v.Over
	l.Under += v.Under
	if v.Exact {
		l.Exact++
	}
}
