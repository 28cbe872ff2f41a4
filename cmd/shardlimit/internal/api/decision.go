package api

import (
	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/answer"
)

// Decision is a result, as JSON.
type Decision struct {
	answer.Decision
	Receipt string `json:"receipt,omitempty"`
}

// verdict is a decision, or the Problem why there is none.
type verdict struct {
	*Decision
	Problem *Problem `json:"problem,omitempty"`
}

// decisions are those of many requests.
type decisions struct {
	Allowed   bool      `json:"allowed"` // all of them are
	Decisions []verdict `json:"decisions"`
}

// decision returns a result of the policy as JSON, with a receipt if one is
// wanted and there is something to give back.
func (a *API) decision(p *shardlimit.Policy, r shardlimit.Result, receipt bool) Decision {
	d := Decision{Decision: answer.Of(p, r)}
	if receipt && r.Granted > 0 && r.Source != shardlimit.FromFallback {
		d.Receipt = a.receipts.keep(r)
	}
	return d
}
