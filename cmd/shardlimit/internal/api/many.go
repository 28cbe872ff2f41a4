package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/shardlimit/shardlimit"
)

// checkMany decides several requests: each by itself, or all or none.
func (a *API) checkMany(ctx context.Context, w http.ResponseWriter, b *checkBody) {
	items, faults := a.items(b)
	if len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	outcomes := a.allowEach
	if b.together {
		outcomes = a.allowAll
	}
	all, p := outcomes(ctx, items)
	if p != nil {
		p.write(w)
		return
	}
	answers := decisions{Allowed: true, Decisions: make([]verdict, len(all))}
	decided := make([]Decision, len(all))
	for i, o := range all {
		answers.Allowed = answers.Allowed && o.problem == nil && o.result.Allowed
		if o.problem != nil {
			answers.Decisions[i].Problem = o.problem
			continue
		}
		decided[i] = a.decision(items[i].Policy, o.result, b.receipt)
		answers.Decisions[i].Decision = &decided[i]
	}
	reply(w, answers)
}

// items returns all that are asked for, or everything in the body's form that is
// wrong.
func (a *API) items(b *checkBody) ([]item, []FieldError) {
	var faults []FieldError
	if b.single {
		faults = append(faults, FieldError{
			Field: "requests", Reason: "must not be beside policy, subject, subject_base64, cost or mode",
		})
	}
	if n := len(b.requests); n < 1 || n > maxRequests {
		return nil, append(faults, FieldError{Field: "requests", Value: n, Reason: fmt.Sprintf("must be 1 to %d", maxRequests)})
	}
	items := make([]item, len(b.requests))
	for i, text := range b.requests {
		var q question
		faults = append(faults, within(i, q.read(text, q.fields()))...)
		items[i] = a.item(&q)
		items[i].faults = within(i, items[i].faults)
	}
	return items, faults
}

// within returns what is wrong with one of many requests, its fields named by
// its place among them.
func within(i int, faults []FieldError) []FieldError {
	for j := range faults {
		place := fmt.Sprintf("requests[%d]", i)
		if name := faults[j].Field; name != "" {
			place += "." + name
		}
		faults[j].Field = place
	}
	return faults
}

// outcome is what became of one of many requests.
type outcome struct {
	result  shardlimit.Result
	problem *Problem // instead of a result
}

// allowEach decides requests that have nothing to do with each other.
func (a *API) allowEach(ctx context.Context, items []item) ([]outcome, *Problem) {
	outcomes := make([]outcome, len(items))
	for i, o := range a.Limiter.AllowEach(ctx, requests(items)...) {
		outcomes[i].result = o.Result
		switch {
		case len(items[i].faults) > 0:
			outcomes[i].problem = invalid(items[i].faults...)
		case o.Err != nil:
			outcomes[i].problem = explain(o.Err).within(i)
		}
	}
	return outcomes, nil
}

// allowAll decides requests of which all pass or none does.
func (a *API) allowAll(ctx context.Context, items []item) ([]outcome, *Problem) {
	results, err := a.Limiter.AllowAll(ctx, requests(items)...)
	if err != nil {
		return nil, explainAll(err, items)
	}
	outcomes := make([]outcome, len(results))
	for i, r := range results {
		outcomes[i].result = r
	}
	return outcomes, nil
}

func requests(items []item) []shardlimit.Request {
	all := make([]shardlimit.Request, len(items))
	for i := range items {
		all[i] = items[i].Request
	}
	return all
}

// explainAll returns the problem that an error of AllowAll is: of bad input,
// everything that is wrong, in the order of the items.
func explainAll(err error, items []item) *Problem {
	faults := make([][]FieldError, len(items))
	for i := range items {
		faults[i] = items[i].faults
	}
	for _, e := range requestErrors(err) {
		if len(faults[e.Index]) > 0 {
			continue // it is why the limiter didn't take it
		}
		p := explain(e.Err).within(e.Index)
		if len(p.Errors) == 0 {
			return p
		}
		faults[e.Index] = p.Errors
	}
	if bad := slices.Concat(faults...); len(bad) > 0 {
		return invalid(bad...)
	}
	return explain(err)
}

// requestErrors returns those that err joins.
func requestErrors(err error) (all []*shardlimit.RequestError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, requestErrors(e)...)
		}
		return all
	}
	if e, ok := errors.AsType[*shardlimit.RequestError](err); ok {
		return append(all, e)
	}
	return nil
}
