package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/shardlimit/shardlimit"
)

// maxRequests is how many may be in one check.
const maxRequests = 128

// The modes of a check.
const (
	modeAllow  = "allow" // also ""
	modeAtMost = "at_most"
	modeCharge = "charge"
)

// question is one request as the body has it.
type question struct {
	policy, subject string
	bytes           []byte // the subject in base64, where it is no UTF-8
	cost            *int64 // nil: 1
}

// fields returns the fields of a request.
func (q *question) fields() map[string]any {
	return map[string]any{"policy": &q.policy, "subject": &q.subject, "subject_base64": &q.bytes, "cost": &q.cost}
}

// request is a question that can be asked.
type request struct {
	policy  *shardlimit.Policy
	subject string
	cost    int64
}

// request returns what the limiter is asked, or what is wrong with the
// question. at begins the fields' names.
func (a *API) request(q *question, at string) (request, []FieldError) {
	var faults []FieldError
	subject := q.subject
	switch {
	case q.subject != "" && len(q.bytes) > 0:
		faults = append(faults, FieldError{Field: at + "subject_base64", Reason: "must not be beside subject"})
	case len(q.bytes) > 0:
		subject = string(q.bytes)
	case q.subject == "":
		faults = append(faults, FieldError{Field: at + "subject", Value: "", Reason: "must not be empty"})
	}
	p, _ := a.Config().Rules.Find(q.policy, subject)
	if p == nil {
		faults = append(faults, FieldError{Field: at + "policy", Value: q.policy, Reason: "is none of the policies"})
	}
	cost := int64(1)
	if q.cost != nil {
		cost = *q.cost
	}
	if cost < 1 {
		faults = append(faults, FieldError{Field: at + "cost", Value: cost, Reason: "must be at least 1"})
	}
	return request{p, subject, cost}, faults
}

// checkBody is what POST /v1/check takes.
type checkBody struct {
	question
	mode     string
	receipt  bool
	requests []json.RawMessage
	together bool
}

// check decides one request, or many.
func (a *API) check(w http.ResponseWriter, r *http.Request) {
	text, p := readBody(w, r)
	if p != nil {
		p.write(w)
		return
	}
	var b checkBody
	fields := b.fields()
	fields["mode"], fields["receipt"] = &b.mode, &b.receipt
	fields["requests"], fields["all_or_none"] = &b.requests, &b.together
	if faults := object("", text, fields); len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	if b.requests != nil {
		a.checkMany(r.Context(), w, &b)
		return
	}
	a.checkOne(r.Context(), w, &b)
}

func (a *API) checkOne(ctx context.Context, w http.ResponseWriter, b *checkBody) {
	req, faults := a.request(&b.question, "")
	ask := a.ask(b.mode)
	if ask == nil {
		faults = append(faults, FieldError{Field: "mode", Value: b.mode, Reason: "must be allow, at_most or charge"})
	}
	if b.together {
		faults = append(faults, FieldError{Field: "all_or_none", Value: true, Reason: "must be beside requests"})
	}
	if len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	result, err := ask(ctx, req.policy, req.subject, req.cost)
	if err != nil {
		explain(err, "").write(w)
		return
	}
	reply(w, a.decision(req.policy, result, b.receipt))
}

// ask returns the method that a mode stands for, or nil.
func (a *API) ask(mode string) func(context.Context, *shardlimit.Policy, string, int64) (shardlimit.Result, error) {
	switch mode {
	case modeAllow, "":
		return a.Limiter.AllowN
	case modeAtMost:
		return a.Limiter.AllowAtMost
	case modeCharge:
		return a.Limiter.Charge
	default:
		return nil
	}
}

// checkMany decides several requests: each by itself, or all or none.
func (a *API) checkMany(ctx context.Context, w http.ResponseWriter, b *checkBody) {
	requests, faults := a.requests(b)
	if len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	var outcomes []outcome
	if b.together {
		var p *Problem
		if outcomes, p = a.allowAll(ctx, requests); p != nil {
			p.write(w)
			return
		}
	} else {
		outcomes = a.allowEach(ctx, requests)
	}
	answer := decisions{Allowed: true, Decisions: make([]decision, len(outcomes))}
	for i, o := range outcomes {
		d := decision{Policy: requests[i].policy.Name(), Problem: o.problem}
		if o.problem == nil {
			d = a.decision(requests[i].policy, o.result, b.receipt)
		}
		answer.Allowed = answer.Allowed && d.Allowed
		answer.Decisions[i] = d
	}
	reply(w, answer)
}

// requests returns all that are asked for, or everything that is wrong with
// them.
func (a *API) requests(b *checkBody) ([]request, []FieldError) {
	var faults []FieldError
	if b.policy != "" || b.subject != "" || b.bytes != nil || b.cost != nil || b.mode != "" {
		faults = append(faults, FieldError{
			Field: "requests", Reason: "must not be beside policy, subject, subject_base64, cost or mode",
		})
	}
	if n := len(b.requests); n < 1 || n > maxRequests {
		return nil, append(faults, FieldError{Field: "requests", Value: n, Reason: fmt.Sprintf("must be 1 to %d", maxRequests)})
	}
	all := make([]request, len(b.requests))
	for i, text := range b.requests {
		var q question
		at := fmt.Sprintf("requests[%d].", i)
		wrong := object(at, text, q.fields())
		if len(wrong) == 0 {
			all[i], wrong = a.request(&q, at)
		}
		faults = append(faults, wrong...)
	}
	return all, faults
}
