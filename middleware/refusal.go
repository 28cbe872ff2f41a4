package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/shardlimit/shardlimit"
)

// Refusal is why a request doesn't go through.
type Refusal struct {
	Status  int // what to answer: 400, 429, 500 or 503
	Policy  *shardlimit.Policy
	Subject string
	Result  shardlimit.Result // if Err is nil
	Err     error             // why there is no decision
}

// Status returns the HTTP status of what a Limiter returned: 200 if it allows,
// 429 if it denies, 503 if it failed closed or had no time to decide, 400 if
// there was no subject, and 500 for any other error. It is 0 if the caller is
// gone, so that nobody is left to answer.
func Status(r shardlimit.Result, err error) int {
	switch {
	case errors.Is(err, context.Canceled):
		return 0
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	case errors.Is(err, shardlimit.ErrNoSubject):
		return http.StatusBadRequest
	case err != nil:
		return http.StatusInternalServerError
	case r.Allowed:
		return http.StatusOK
	case r.Failure != nil && r.ResetAfter == 0: // nothing was counted: no limit denied it
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}

// problem is a body by RFC 9457. The types are registered by the draft on
// RateLimit fields.
type problem struct {
	Type     string   `json:"type,omitempty"` // "" is about:blank
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// Respond answers with the refusal's status and an application/problem+json
// body that says what happened, and names the policy if it was denied. It says
// nothing of the subject or the error, which are the server's own.
func Respond(w http.ResponseWriter, _ *http.Request, f Refusal) {
	p := problem{Title: http.StatusText(f.Status), Status: f.Status}
	switch {
	case f.Err != nil:
	case f.Status == http.StatusTooManyRequests:
		p.Type, p.Title = problemTypes+"quota-exceeded", "The request exceeds its quota"
		p.Violated = []string{f.Policy.Name()}
	default:
		p.Type, p.Title = problemTypes+"temporary-reduced-capacity", "The request's quota can't be told now"
	}
	body, _ := json.Marshal(p) // strings and a number: it can't fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(f.Status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
