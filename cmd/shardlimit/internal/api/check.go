package api

import (
	"context"
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

// mostFields is how many fields a body has at most.
const mostFields = 8

// question is one request as the body has it.
type question struct {
	policy, subject string
	bytes           []byte // the subject in base64, where it is no UTF-8
	cost            *int64 // nil: 1
	both            bool   // subject and bytes are there
}

// about returns the fields that say whom a request is for.
func (q *question) about() []field {
	all := make([]field, 0, mostFields) // so that who adds others need not grow it
	return append(all, field{name: "policy", to: &q.policy}, field{name: "subject", to: &q.subject},
		field{name: "subject_base64", to: &q.bytes})
}

// fields returns the fields of a request.
func (q *question) fields() []field { return append(q.about(), field{name: "cost", to: &q.cost}) }

// read reads text into fields, some of which are those of q, and returns what is
// wrong with it.
func (q *question) read(text string, fields []field) []FieldError {
	faults := object(text, fields)
	q.both = given(fields, "subject") && given(fields, "subject_base64")
	return faults
}

// item is a request as the limiter takes it. Where it has faults, which lie
// in what was asked, its policy is nil, so that no limiter charges it.
type item struct {
	shardlimit.Request
	faults []FieldError
}

// item returns what the limiter is asked.
func (a *API) item(q *question) item {
	it := item{Request: shardlimit.Request{Subject: q.subject, Cost: 1}}
	fault := func(field string, value any, reason string) {
		it.faults = append(it.faults, FieldError{Field: field, Value: value, Reason: reason})
	}
	if len(q.bytes) > 0 {
		it.Subject = string(q.bytes)
	}
	if q.cost != nil {
		it.Cost = *q.cost
	}
	p, _ := a.Config().Rules.Find(q.policy, it.Subject)
	if q.both {
		fault("subject_base64", nil, "must not be beside subject")
	}
	if it.Subject == "" {
		fault("subject", "", "must not be empty")
	}
	if p == nil {
		fault("policy", q.policy, "is none of the policies")
	}
	if it.Cost < 1 {
		fault("cost", it.Cost, "must be at least 1")
	}
	if len(it.faults) == 0 {
		it.Policy = p
	}
	return it
}

// checkBody is what POST /v1/check takes.
type checkBody struct {
	question
	mode     string
	receipt  bool
	requests []string // the text of each
	together bool
	single   bool // there are fields of a single request
}

// fields returns the fields of the body.
func (b *checkBody) fields() []field {
	return append(b.question.fields(), field{name: "mode", to: &b.mode}, field{name: "receipt", to: &b.receipt},
		field{name: "requests", to: &b.requests}, field{name: "all_or_none", to: &b.together})
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
	if faults := b.read(text, fields); len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	b.single = given(fields, "policy", "subject", "subject_base64", "cost", "mode")
	if b.requests != nil {
		a.checkMany(r.Context(), w, &b)
		return
	}
	a.checkOne(r.Context(), w, &b)
}

func (a *API) checkOne(ctx context.Context, w http.ResponseWriter, b *checkBody) {
	it := a.item(&b.question)
	faults, ask := it.faults, a.ask(b.mode)
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
	result, err := ask(ctx, it.Policy, it.Subject, it.Cost)
	if err != nil {
		explain(err).write(w)
		return
	}
	reply(w, a.decision(it.Policy, result, b.receipt))
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
