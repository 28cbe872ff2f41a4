package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

// authenticated lets through those who have the token. How long the comparison
// takes says nothing of it.
func (a *API) authenticated(h http.HandlerFunc) http.HandlerFunc {
	if a.Token == "" {
		return h
	}
	want := sha256.Sum256([]byte(a.Token))
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
		if subtle.ConstantTimeCompare(want[:], got[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			h(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="shardlimit"`)
		problem(http.StatusUnauthorized, "unauthorized", "This takes the admin token.", "").write(w)
	}
}

// reset forgets what a subject has used.
func (a *API) reset(w http.ResponseWriter, r *http.Request) {
	text, p := readBody(w, r)
	if p != nil {
		p.write(w)
		return
	}
	var q question
	faults := q.read(text, q.about())
	it := a.item(&q)
	if len(faults) == 0 {
		faults = it.faults
	}
	if len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	if err := a.Limiter.Reset(r.Context(), it.Policy, it.Subject); err != nil {
		explain(err).write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// inspection is what the daemon knows of itself, and of a subject if one is
// asked for.
type inspection struct {
	Instance      string              `json:"instance"` // begins its receipts
	Configuration reload.Status       `json:"configuration"`
	Policies      []policyState       `json:"policies"`
	Limiter       shardlimit.Snapshot `json:"limiter"`
	Subject       *subjectState       `json:"subject,omitempty"`
}

// policyState is a policy as it holds without overrides, and those.
type policyState struct {
	Name      string          `json:"name"`
	Limits    []string        `json:"limits"`
	Overrides []overrideState `json:"overrides"`
}

type overrideState struct {
	Subject string   `json:"subject"` // a pattern
	Limits  []string `json:"limits"`
}

// subjectState is what holds for a subject, and what it would be told.
type subjectState struct {
	Override string   `json:"override,omitempty"` // the pattern by which another's limits hold
	Limits   []string `json:"limits"`
	Peek     Decision `json:"peek"`
}

// inspect says what the daemon knows; with policy and subject in the query, of
// that subject too. It charges nothing.
func (a *API) inspect(w http.ResponseWriter, r *http.Request) {
	q, faults := query(r, "policy", "subject")
	if len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	in := inspection{
		Instance: a.receipts.instance, Configuration: a.Status(), Policies: a.policies(), Limiter: a.Limiter.Inspect(),
	}
	if len(q) > 0 {
		var p *Problem
		if in.Subject, p = a.subject(r, q["policy"], q["subject"]); p != nil {
			p.write(w)
			return
		}
	}
	reply(w, in)
}

func (a *API) policies() []policyState {
	set, all := a.Config().Rules, []policyState{}
	for _, name := range set.Names() {
		state := policyState{Name: name, Limits: texts(set.Policy(name)), Overrides: []overrideState{}}
		for _, o := range set.Overrides(name) {
			state.Overrides = append(state.Overrides, overrideState{string(o.Subject), texts(o.Policy)})
		}
		all = append(all, state)
	}
	return all
}

// subject looks at a subject.
func (a *API) subject(r *http.Request, policy, subject string) (*subjectState, *Problem) {
	it := a.item(&question{policy: policy, subject: subject})
	if len(it.faults) > 0 {
		return nil, invalid(it.faults...)
	}
	result, err := a.Limiter.Peek(r.Context(), it.Policy, it.Subject)
	if err != nil {
		return nil, explain(err)
	}
	_, by := a.Config().Rules.Find(policy, subject)
	return &subjectState{
		Override: string(by), Limits: texts(it.Policy), Peek: a.decision(it.Policy, result, false),
	}, nil
}

// texts returns the policy's limits as text.
func texts(p *shardlimit.Policy) []string {
	var all []string
	for _, l := range p.Limits() {
		all = append(all, l.String())
	}
	return all
}
