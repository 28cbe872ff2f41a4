package main

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/drill"
)

// bound is a figure beside what it may be at most.
type bound struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Most  float64 `json:"most"`
	Exact bool    `json:"exact"` // holds on any machine
}

func (b bound) kept() bool { return b.Value <= b.Most }

// slack is how much longer than its timeout a call may take, over the control.
const slack = 10 * time.Millisecond

// What else is bounded by time.
const (
	othersRatio = 1.5                    // of other shards' p99, to the control's
	onceOpen    = time.Millisecond       // p99 of calls that meet an open breaker
	afterwards  = 500 * time.Millisecond // from the promotion until all is answered
)

// The names of the figures that depend on the machine.
const (
	p999Over  = "p99.9 over the control's, ms"
	maxOver   = "longest over the control's, ms"
	othersP99 = "other shards' p99 to the control's"
	openP99   = "p99 once a breaker is open, ms"
	promotion = "failures after the promotion, until ms"
)

// judge returns the bounds of a report beside the control.
func judge(r *drill.Report, control drill.Latency, o drill.Options) []bound {
	bounds := []bound{
		{"double charges", float64(r.Account.Double), 0, true},
		{"over, beyond what was at risk", float64(r.Account.Over), 0, true},
		{"over, of what was at risk", float64(r.Account.Lost), float64(r.Account.AtRisk), true},
		{p999Over, ms(r.All.P999 - control.P999), ms(o.Timeout + slack), false},
		{maxOver, ms(r.All.Max - control.Max), ms(o.Timeout + slack), false},
	}
	if r.Others.Calls > 0 && control.P99 > 0 {
		bounds = append(bounds, bound{othersP99, float64(r.Others.P99) / float64(control.P99), othersRatio, false})
	}
	if r.Open.Calls > 0 {
		bounds = append(bounds, bound{openP99, ms(r.Open.P99), ms(onceOpen), false})
	}
	if r.Promoted {
		bounds = append(bounds, bound{promotion, ms(r.Again), ms(afterwards), false})
	}
	return bounds
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
