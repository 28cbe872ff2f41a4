package api

import (
	"net/http"
	"strconv"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

// authorize answers a proxy that asks before it passes a request on: nginx's
// auth_request, Traefik's and Caddy's forward_auth. What the query says goes
// before what headers say, as clients can't reach it.
func (a *API) authorize(w http.ResponseWriter, r *http.Request) {
	it := a.asked(r)
	if len(it.faults) > 0 {
		invalid(it.faults...).write(w)
		return
	}
	result, err := a.Limiter.AllowN(r.Context(), it.Policy, it.Subject, it.Cost)
	if err != nil {
		explain(err).write(w)
		return
	}
	middleware.SetHeaders(w.Header(), it.Policy, result)
	switch middleware.Status(result, nil) {
	case http.StatusOK:
		w.WriteHeader(http.StatusOK)
	case http.StatusServiceUnavailable:
		unavailable(result.Failure).write(w)
	default:
		exceeded(a.Config().Authorize.DeniedStatus, it.Policy).write(w)
	}
}

// asked returns what a proxy asks.
func (a *API) asked(r *http.Request) item {
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
			faults = append(faults, FieldError{Field: "cost", Value: text, Reason: "must be " + kind(&cost)})
		}
		ask.cost = &cost
	}
	if len(faults) > 0 {
		return item{faults: faults}
	}
	return a.item(&ask)
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
