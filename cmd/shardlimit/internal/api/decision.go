package api

import (
	"github.com/shardlimit/shardlimit"
)

// decision is a result, as JSON. Where there is a Problem there is no decision.
type decision struct {
	Policy       string   `json:"policy,omitempty"`
	Allowed      bool     `json:"allowed"`
	Granted      int64    `json:"granted"`
	Limit        string   `json:"limit,omitempty"` // the one that binds
	Remaining    int64    `json:"remaining"`
	RetryAfterUS int64    `json:"retry_after_us"`
	ResetAfterUS int64    `json:"reset_after_us"`
	Source       string   `json:"source,omitempty"`
	Shadowed     bool     `json:"shadowed,omitempty"` // it would have been denied
	Failure      string   `json:"failure,omitempty"`  // why the failure mode decided
	Receipt      string   `json:"receipt,omitempty"`
	Problem      *Problem `json:"problem,omitempty"`
}

// decisions are those of many requests.
type decisions struct {
	Allowed   bool       `json:"allowed"` // all of them are
	Decisions []decision `json:"decisions"`
}

// decision returns a result of the policy as JSON, with a receipt if one is
// wanted and there is something to give back.
func (a *API) decision(p *shardlimit.Policy, r shardlimit.Result, receipt bool) decision {
	d := decision{
		Policy: p.Name(), Allowed: r.Allowed, Granted: r.Granted, Limit: r.Limit.String(), Remaining: r.Remaining,
		RetryAfterUS: r.RetryAfter.Microseconds(), ResetAfterUS: r.ResetAfter.Microseconds(),
		Source: r.Source.String(), Shadowed: r.Shadowed,
	}
	if r.Failure != nil {
		d.Failure = r.Failure.Error()
	}
	if receipt && r.Granted > 0 && r.Source != shardlimit.FromFallback {
		d.Receipt = a.receipts.keep(r)
	}
	return d
}
