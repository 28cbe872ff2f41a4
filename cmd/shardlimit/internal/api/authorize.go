package api

import (
	"net/http"
	"strconv"

	"github.com/shardlimit/shardlimit"
)

// authorize answers a proxy that asks before it passes a request on: nginx's
// auth_request, Traefik's and Caddy's forward_auth. What the query says goes
// before what headers say, as clients can't reach it.
func (a *API) authorize(w http.ResponseWriter, r *http.Request) {
	req, faults := a.asked(r)
	if len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	result, err := a.Limiter.AllowN(r.Context(), req.policy, req.subject, req.cost)
	if err != nil {
		explain(err, "").write(w)
		return
	}
	setFields(w.Header(), req.policy, result)
	switch {
	case result.Allowed:
		w.WriteHeader(http.StatusOK)
	case result.Source == shardlimit.FromFallback:
		unavailable(result.Failure).write(w)
	default:
		exceeded(a.Config().Authorize.DeniedStatus, req.policy).write(w)
	}
}

// asked returns what a proxy asks.
func (a *API) asked(r *http.Request) (request, []FieldError) {
	q, faults := query(r, "policy", "subject", "cost")
	c := a.Config().Authorize
	ask := question{policy: q["policy"], subject: q["subject"]}
	if ask.policy == "" && c.PolicyHeader != "" {
		ask.policy = r.Header.Get(c.PolicyHeader)
	}
	if ask.policy == "" {
		ask.policy = c.Policy
	}
	for _, name := range c.SubjectHeaders {
		if ask.subject == "" {
			ask.subject = r.Header.Get(name)
		}
	}
	if text, ok := q["cost"]; ok {
		cost, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			faults = append(faults, FieldError{Field: "cost", Value: text, Reason: "must be a whole number"})
		}
		ask.cost = &cost
	}
	if len(faults) > 0 {
		return request{}, faults
	}
	return a.request(&ask, "")
}

// exceeded is the problem that the IETF's draft on RateLimit fields registers,
// for those whom the proxy shows it.
func exceeded(status int, p *shardlimit.Policy) *Problem {
	return &Problem{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Too many requests.",
		Status: status,
		Detail: "policy " + p.Name(),
	}
}
