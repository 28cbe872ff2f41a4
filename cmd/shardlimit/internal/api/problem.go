package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// Problem is an answer that is none, as RFC 9457 has it. Nothing was charged,
// but where Detail says that something may have been.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is what is wrong with one field of a request.
type FieldError struct {
	Field  string `json:"field"` // as in "requests[1].cost"
	Value  any    `json:"value,omitempty"`
	Reason string `json:"reason"`
}

// problem returns one of the problems that the API description lists.
func problem(status int, name, title, detail string) *Problem {
	return &Problem{Type: "urn:shardlimit:problem:" + name, Title: title, Status: status, Detail: detail}
}

func malformed(detail string) *Problem {
	return problem(http.StatusBadRequest, "malformed", "The body is not what it should be.", detail)
}

// maxFaults is how many faults a problem names, and maxShown the bytes of a
// name or a value that it shows: no answer is much larger than its question.
const (
	maxFaults = 32
	maxShown  = 64
)

func invalid(errors ...FieldError) *Problem {
	p := problem(http.StatusUnprocessableEntity, "invalid-input", "The request can't be decided as it is.", "")
	p.Errors = errors[:min(len(errors), maxFaults)]
	for i := range p.Errors {
		e := &p.Errors[i]
		e.Field = cut(e.Field)
		if text, ok := e.Value.(string); ok {
			e.Value = cut(text)
		}
	}
	return p
}

// cut returns text as a problem shows it.
func cut(text string) string {
	if len(text) <= maxShown+len("…") { // it may have been cut already
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}

func unavailable(err error) *Problem {
	detail := err.Error()
	return problem(http.StatusServiceUnavailable, "unavailable", "The shard of the subject does not answer.", detail)
}

// within returns the problem as that of one of many requests.
func (p *Problem) within(i int) *Problem {
	p.Errors = within(i, p.Errors)
	return p
}

// explain returns the problem that an error of the Limiter is.
func explain(err error) *Problem {
	if c, ok := errors.AsType[*shardlimit.CostError](err); ok {
		return invalid(FieldError{Field: "cost", Value: c.Cost, Reason: costReason(c)})
	}
	if c, ok := errors.AsType[*shardlimit.ConfigError](err); ok { // a Charge that the policy doesn't take
		return invalid(FieldError{Field: "mode", Value: "charge", Reason: "the policy's algorithm " + c.Reason})
	}
	if down, ok := errors.AsType[*shardlimit.UnavailableError](err); ok {
		return unavailable(down)
	}
	switch {
	case errors.Is(err, shardlimit.ErrNoSubject):
		return invalid(FieldError{Field: "subject", Value: "", Reason: "must not be empty"})
	case errors.Is(err, shardlimit.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusServiceUnavailable, "stopping", "The daemon or the request is ending.", err.Error())
	default:
		return problem(http.StatusInternalServerError, "misconfigured", "Redis is set up wrongly.", err.Error())
	}
}

func costReason(c *shardlimit.CostError) string {
	if c.Cost < 1 {
		return "must be at least 1"
	}
	return "is more than " + c.Limit.String() + " can ever hold"
}

// write answers with the problem.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // who has left needs no answer
}

func notFound(w http.ResponseWriter, r *http.Request) {
	problem(http.StatusNotFound, "not-found", "There is nothing here.", r.URL.Path).write(w)
}

// wrongMethod answers those who come by another method than this one.
func wrongMethod(method string) http.HandlerFunc {
	allow := method
	if method == http.MethodGet {
		allow += ", " + http.MethodHead
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		problem(http.StatusMethodNotAllowed, "wrong-method", "This takes another method.", r.Method+": want "+allow).write(w)
	}
}

// reply answers with v, which is plain data, and says how long the answer is.
func reply(w http.ResponseWriter, v any) {
	text, _ := json.Marshal(v)
	text = append(text, '\n')
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // who has left needs no answer
}
