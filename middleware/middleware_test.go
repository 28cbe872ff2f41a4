package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

// decides is a Limiter that always says the same, and keeps what it was asked.
type decides struct {
	result shardlimit.Result
	err    error

	subject string
	cost    int64
}

func (d *decides) AllowN(_ context.Context, _ *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error) {
	d.subject, d.cost = subject, cost
	return d.result, d.err
}

// mustNew returns the middleware of c.
func mustNew(t *testing.T, c middleware.Config) func(http.Handler) http.Handler {
	t.Helper()
	limit, err := middleware.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// hello is what is limited.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

// answer returns what a request gets, with the limiter's decision.
func answer(t *testing.T, c middleware.Config) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	mustNew(t, c)(hello).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/items", nil))
	return w
}

func TestEachDecisionHasItsStatus(t *testing.T) {
	limit := shardlimit.PerSecond(10)
	away := &shardlimit.UnavailableError{Err: errors.New("away")}
	for _, tt := range []struct {
		name   string
		result shardlimit.Result
		err    error
		status int
		body   string
	}{
		{"allowed", shardlimit.Result{Allowed: true, Limit: limit}, nil, 200, "hello"},
		{"allowed by a failure mode", shardlimit.Result{Allowed: true, Limit: limit, Failure: away}, nil, 200, "hello"},
		{
			"denied",
			shardlimit.Result{Limit: limit},
			nil, 429,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"The request exceeds its quota","status":429,"violated-policies":["api"]}`,
		},
		{
			"denied by a failure mode",
			shardlimit.Result{Limit: limit, Failure: away},
			nil, 503,
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"The request's quota can't be told now","status":503}`,
		},
		{
			"denied by what a failure mode counts",
			shardlimit.Result{Limit: limit, ResetAfter: time.Second, Failure: away},
			nil, 429,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"The request exceeds its quota","status":429,"violated-policies":["api"]}`,
		},
		{"no subject", shardlimit.Result{}, shardlimit.ErrNoSubject, 400, `{"title":"Bad Request","status":400}`},
		{"error", shardlimit.Result{}, errors.New("NOPERM for user secret"), 500, `{"title":"Internal Server Error","status":500}`},
		{"closed", shardlimit.Result{}, shardlimit.ErrClosed, 500, `{"title":"Internal Server Error","status":500}`},
		{"a cost that never passes", shardlimit.Result{}, &shardlimit.CostError{Cost: 11, Limit: limit}, 500, `{"title":"Internal Server Error","status":500}`},
		{"no time left", shardlimit.Result{}, context.DeadlineExceeded, 503, `{"title":"Service Unavailable","status":503}`},
		{"caller gone", shardlimit.Result{}, context.Canceled, 503, ""},
	} {
		w := answer(t, middleware.Config{
			Limiter: &decides{result: tt.result, err: tt.err},
			Policy:  middleware.Always(policyOf(t, limit)),
			Subject: says("user:42"),
		})
		if w.Code != tt.status || w.Body.String() != tt.body {
			t.Errorf("%s: %d %s, want %d %s", tt.name, w.Code, w.Body, tt.status, tt.body)
		}
	}
}

func TestRequestWithoutAPolicyIsNotLimited(t *testing.T) {
	w := answer(t, middleware.Config{
		Limiter: &decides{},
		Policy:  middleware.Always(nil),
		Subject: func(*http.Request) string { t.Error("the subject was asked for"); return "" },
	})
	if w.Code != http.StatusOK || len(w.Header()) > 1 { // Content-Type
		t.Errorf("answer = %d %v, want 200 and no fields", w.Code, w.Header())
	}
}

func TestRequestIsChargedItsCost(t *testing.T) {
	d := &decides{result: shardlimit.Result{Allowed: true, Limit: shardlimit.PerSecond(10)}}
	c := middleware.Config{Limiter: d, Policy: middleware.Always(policyOf(t, shardlimit.PerSecond(10))), Subject: middleware.Path}
	answer(t, c)
	if d.subject != "path:/items" || d.cost != 1 {
		t.Errorf("asked for %d of %q, want 1 of path:/items", d.cost, d.subject)
	}
	c.Cost = func(*http.Request) int64 { return 7 }
	answer(t, c)
	if d.cost != 7 {
		t.Errorf("asked for %d, want 7", d.cost)
	}
}

func TestRespondIsToldWhyAndAnswers(t *testing.T) {
	limit := shardlimit.PerSecond(10)
	p := policyOf(t, limit)
	denied := shardlimit.Result{Limit: limit, RetryAfter: 3 * time.Second}
	var got middleware.Refusal
	w := answer(t, middleware.Config{
		Limiter: &decides{result: denied}, Policy: middleware.Always(p), Subject: says("user:42"),
		Respond: func(w http.ResponseWriter, _ *http.Request, f middleware.Refusal) {
			got = f
			http.Error(w, "later", f.Status)
		},
	})
	if want := (middleware.Refusal{Status: 429, Policy: p, Subject: "user:42", Result: denied}); got != want {
		t.Errorf("Refusal = %+v, want %+v", got, want)
	}
	if w.Code != 429 || w.Body.String() != "later\n" || w.Header().Get("Retry-After") != "3" {
		t.Errorf("answer = %d %q, Retry-After %q; want 429 later, 3", w.Code, w.Body, w.Header().Get("Retry-After"))
	}
}

func TestOldFieldsAreSetOnRequest(t *testing.T) {
	limit := shardlimit.PerSecond(10).WithBurst(20)
	c := middleware.Config{
		Limiter: &decides{result: shardlimit.Result{Allowed: true, Limit: limit, Remaining: 3, ResetAfter: 1700 * time.Millisecond}},
		Policy:  middleware.Always(policyOf(t, limit)), Subject: says("user:42"),
	}
	old := func() map[string]string {
		h, fields := answer(t, c).Header(), map[string]string{}
		for name := range h {
			if strings.HasPrefix(name, "X-Ratelimit-") {
				fields[name] = h.Get(name)
			}
		}
		return fields
	}
	if got := old(); len(got) != 0 {
		t.Errorf("not asked for: %v", got)
	}
	c.XRateLimit = true
	want := map[string]string{"X-Ratelimit-Limit": "20", "X-Ratelimit-Remaining": "3", "X-Ratelimit-Reset": "2"}
	if diff := cmp.Diff(want, old()); diff != "" {
		t.Errorf("old fields (-want +got):\n%s", diff)
	}
	c.Limiter = &decides{result: shardlimit.Result{Allowed: true, Limit: limit, Failure: errors.New("away")}}
	if got := old(); len(got) != 0 {
		t.Errorf("decided by a failure mode: %v, want none", got)
	}
}

func TestFaultsOfAConfigAreNamed(t *testing.T) {
	_, err := middleware.New(middleware.Config{})
	for _, field := range []string{"Limiter", "Policy", "Subject"} {
		if err == nil || !strings.Contains(err.Error(), "shardlimit: "+field+": <nil>: is needed") {
			t.Errorf("New: %v, want it to name %s", err, field)
		}
	}
}
