package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/answer"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const rulesText = `
policies:
  - {name: api, limits: [5/h, 100/d fixed_window]}
  - {name: closed, limits: [5/h], on_failure: closed}
  - {name: gcra, limits: [5/h gcra]}
  - {name: shadow, limits: [5/h], shadow: true}
overrides:
  - {policy: api, subjects: ["vip:*"], limits: [50/h, 1000/d fixed_window]}
authorize: {policy: api, policy_header: X-Policy, subject_headers: [X-Api-Key, X-Real-IP]}
`

const token = "correct-horse"

// server is a daemon's handlers behind real listeners, held to the contract.
type server struct {
	t        *testing.T
	limiter  Limiter
	api      *API
	contract *contract
	public   *httptest.Server
	admin    *httptest.Server
}

// serve serves a limiter. contract may be that of other servers, whose answers
// count together.
func serve(t *testing.T, l Limiter, c *contract) *server {
	t.Helper()
	parsed, err := config.Parse("rules", []byte(rulesText))
	if err != nil {
		t.Fatal(err)
	}
	f := reload.Fixed(parsed)
	s := &server{t: t, limiter: l, contract: c}
	s.api = New(Options{
		Limiter: l, Config: f.Now, Status: f.Status, Token: token, Receipts: 3,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
	})
	s.public, s.admin = start(t, s.api.Public(), time.Minute), start(t, s.api.Admin(), time.Minute)
	return s
}

// start starts a server that waits so long for a request.
func start(t *testing.T, h http.Handler, patience time.Duration) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadTimeout = patience
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// local returns a server of a limiter in this process.
func local(t *testing.T) *server {
	t.Helper()
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	return serve(t, closing.Opened(t, l, err), newContract(t))
}

// response is what came back.
type response struct {
	status int
	header http.Header
	body   []byte
}

// problem returns the body as a problem.
func (a response) problem(t *testing.T) Problem {
	t.Helper()
	var p Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	return p
}

// ask sends a request with header lines in pairs of name and value, and checks
// the answer against the contract.
func (s *server) ask(method, target, body string, header ...string) response {
	s.t.Helper()
	path, _, _ := strings.Cut(target, "?")
	at := s.public
	if path == "/v1/inspect" || path == "/v1/reset" {
		at = s.admin
		header = append([]string{"Authorization", "Bearer " + token}, header...)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, at.URL+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if path != "/nothing" {
		s.contract.check(s.t, method, path, got.StatusCode, got.Header, text)
	}
	return response{got.StatusCode, got.Header, text}
}

// check posts a check and returns the decision.
func (s *server) check(body string) Decision {
	s.t.Helper()
	a := s.ask("POST", "/v1/check", body)
	var d Decision
	if err := json.Unmarshal(a.body, &d); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("check %s: %d %s (%v)", body, a.status, a.body, err)
	}
	return d
}

// inspected is what clients read of an inspection of a subject.
type inspected struct{ Subject *subjectState }

// remaining ends the test unless so many units of the policy are left to the
// subject a.
func (s *server) remaining(policy string, want int64) {
	s.t.Helper()
	a := s.ask("GET", "/v1/inspect?policy="+policy+"&subject=a", "")
	var in inspected
	if err := json.Unmarshal(a.body, &in); err != nil || in.Subject == nil {
		s.t.Fatalf("inspect: %d %s (%v)", a.status, a.body, err)
	}
	if got := in.Subject.Peek.Remaining; got != want {
		s.t.Fatalf("%d units of %s remain, want %d", got, policy, want)
	}
}

// badInput is what must charge nothing, and how it is answered: with the status,
// and the field and reason of the first error, or the detail.
var badInput = []struct {
	method, target, body string
	header               []string
	status               int
	field, reason        string
}{
	{"POST", "/v1/check", `{"policy":`, nil, 400, "", "is not JSON: at byte 10: unexpected end of JSON input"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a"} {}`, nil, 400, "", "is not JSON: at byte 32: invalid character '{' after top-level value"},
	{"POST", "/v1/check", ``, nil, 400, "", "is not JSON: at byte 0: unexpected end of JSON input"},
	{"POST", "/v1/check", "{\"policy\":\"api\",\"subject\":\"\xff\"}", nil, 400, "", "is not UTF-8: a subject of other bytes goes into subject_base64"},
	{"POST", "/v1/check", `[]`, nil, 422, "", "must be an object"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","cots":1}`, nil, 422, "cots", "unknown field: want all_or_none, cost, mode, policy, receipt, requests, subject, subject_base64"},
	{"POST", "/v1/check", `{"Policy":"api","subject":"a"}`, nil, 422, "Policy", "unknown field: want all_or_none, cost, mode, policy, receipt, requests, subject, subject_base64"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","subject":"b"}`, nil, 422, "subject", "is there already"},
	{"POST", "/v1/check", `{"policy":"api","subject":7}`, nil, 422, "subject", "must be text"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","cost":1.5}`, nil, 422, "cost", "must be a whole number below 2^63, in digits alone"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","cost":"1"}`, nil, 422, "cost", "must be a whole number below 2^63, in digits alone"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","cost":99999999999999999999}`, nil, 422, "cost", "must be a whole number below 2^63, in digits alone"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","receipt":1}`, nil, 422, "receipt", "must be true or false"},
	{"POST", "/v1/check", `{"policy":"apis","subject":"a"}`, nil, 422, "policy", "is none of the policies"},
	{"POST", "/v1/check", `{"subject":"a"}`, nil, 422, "policy", "is none of the policies"},
	{"POST", "/v1/check", `{"policy":"api"}`, nil, 422, "subject", "must not be empty"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","subject_base64":"YQ=="}`, nil, 422, "subject_base64", "must not be beside subject"},
	{"POST", "/v1/check", `{"policy":"api","subject_base64":"?"}`, nil, 422, "subject_base64", "must be base64"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","cost":0}`, nil, 422, "cost", "must be at least 1"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","cost":-1}`, nil, 422, "cost", "must be at least 1"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","cost":6}`, nil, 422, "cost", "is more than 5/h can ever hold"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","mode":"maybe"}`, nil, 422, "mode", "must be allow, at_most or charge"},
	{"POST", "/v1/check", `{"policy":"gcra","subject":"a","mode":"charge"}`, nil, 422, "mode", "the policy's algorithm can't go into debt, so it takes no Charge: use token_bucket"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a","all_or_none":true}`, nil, 422, "all_or_none", "must be beside requests"},
	{"POST", "/v1/check", `{"requests":[]}`, nil, 422, "requests", "must be 1 to 128"},
	{"POST", "/v1/check", `{"requests":[` + strings.Repeat(`{"policy":"api","subject":"a"},`, 128) + `{}]}`, nil, 422, "requests", "must be 1 to 128"},
	{"POST", "/v1/check", `{"requests":[{"policy":"api","subject":"a"},7]}`, nil, 422, "requests[1]", "must be an object"},
	{"POST", "/v1/check", `{"requests":[{"policy":"api","subject":"a"},{"policy":"api","subject":"a","mode":"charge"}]}`, nil, 422, "requests[1].mode", "unknown field: want cost, policy, subject, subject_base64"},
	{"POST", "/v1/check", `{"requests":[{"policy":"api","subject":"a"},{"policy":"apis","subject":"a"}],"all_or_none":true}`, nil, 422, "requests[1].policy", "is none of the policies"},
	{"POST", "/v1/check", `{"policy":"api","requests":[{"policy":"api","subject":"a"}]}`, nil, 422, "requests", "must not be beside policy, subject, subject_base64, cost or mode"},
	{"POST", "/v1/check", `{"requests":[{"policy":"api","subject":"a"},{"policy":"api","subject":"b","cost":6}],"all_or_none":true}`, nil, 422, "requests[1].cost", "is more than 5/h can ever hold"},
	{"POST", "/v1/check", `{"policy":"api","subject":"` + strings.Repeat("a", maxBody) + `"}`, nil, 413, "", "more than 1048576 bytes"},
	{"POST", "/v1/check", `{"policy":"api","subject":"a"}`, []string{"Content-Type", "text/plain"}, 415, "", `Content-Type "text/plain": want application/json`},
	{"GET", "/v1/check", "", nil, 405, "", "GET: want POST"},
	{"GET", "/nothing", "", nil, 404, "", "/nothing"},

	{"POST", "/v1/refund", `{`, nil, 400, "", "is not JSON: at byte 1: unexpected end of JSON input"},
	{"POST", "/v1/refund", `{"receipts":"x"}`, nil, 422, "receipts", "unknown field: want receipt"},
	{"POST", "/v1/refund", `{"receipt":"x"}`, nil, 404, "", "it was never given, or so many came after it that it is forgotten"},
	{"POST", "/v1/refund", `{"receipt":"AAAAAAAA-BBBB"}`, nil, 421, "", ""},
	{"POST", "/v1/refund", `{"receipt":"` + strings.Repeat("a", maxBody) + `"}`, nil, 413, "", "more than 1048576 bytes"},
	{"POST", "/v1/refund", `{}`, []string{"Content-Type", ""}, 415, "", `Content-Type "": want application/json`},
	{"DELETE", "/v1/refund", "", nil, 405, "", "DELETE: want POST"},

	{"GET", "/v1/authorize", "", nil, 422, "subject", "must not be empty"},
	{"GET", "/v1/authorize?subject=a&policy=apis", "", nil, 422, "policy", "is none of the policies"},
	{"GET", "/v1/authorize?subject=a&cots=1", "", nil, 422, "cots", "unknown parameter: want policy, subject, cost"},
	{"GET", "/v1/authorize?subject=a&subject=b", "", nil, 422, "subject", "is there already"},
	{"GET", "/v1/authorize?subject=a&cost=two", "", nil, 422, "cost", "must be a whole number below 2^63, in digits alone"},
	{"GET", "/v1/authorize?subject=a&cost=0", "", nil, 422, "cost", "must be at least 1"},
	{"GET", "/v1/authorize?subject=a&cost=6", "", nil, 422, "cost", "is more than 5/h can ever hold"},
	{"GET", "/v1/authorize?subject=%zz", "", nil, 422, "query", "is not in the form name=value&name=value"},
	{"GET", "/v1/authorize", "", []string{"X-Api-Key", "a", "X-Policy", "apis"}, 422, "policy", "is none of the policies"},
	{"POST", "/v1/authorize?subject=a", "", nil, 405, "", "POST: want GET, HEAD"},

	{"GET", "/v1/inspect", "", []string{"Authorization", "Bearer wrong"}, 401, "", ""},
	{"GET", "/v1/inspect", "", []string{"Authorization", token}, 401, "", ""},
	{"GET", "/v1/inspect", "", []string{"Authorization", ""}, 401, "", ""},
	{"GET", "/v1/inspect?subject=a", "", nil, 422, "policy", "is none of the policies"},
	{"GET", "/v1/inspect?policy=api", "", nil, 422, "subject", "must not be empty"},
	{"PUT", "/v1/inspect", "", nil, 405, "", "PUT: want GET, HEAD"},

	{"POST", "/v1/reset", `{"policy":"api","subject":"a"}`, []string{"Authorization", "Bearer " + token + "r"}, 401, "", ""},
	{"POST", "/v1/reset", `nothing`, nil, 400, "", "is not JSON: at byte 2: invalid character 'o' in literal null (expecting 'u')"},
	{"POST", "/v1/reset", `{"policy":"api","subject":"a","cost":1}`, nil, 422, "cost", "unknown field: want policy, subject, subject_base64"},
	{"POST", "/v1/reset", `{"policy":"apis","subject":"a"}`, nil, 422, "policy", "is none of the policies"},
	{"POST", "/v1/reset", `{"policy":"api","subject":"` + strings.Repeat("a", maxBody) + `"}`, nil, 413, "", "more than 1048576 bytes"},
	{"POST", "/v1/reset", `{}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "", `Content-Type "application/x-www-form-urlencoded": want application/json`},
	{"GET", "/v1/reset", "", nil, 405, "", "GET: want POST"},

	{"POST", "/v1/openapi.yaml", "", nil, 405, "", "POST: want GET, HEAD"},
	{"POST", "/healthz", "", nil, 405, "", "POST: want GET, HEAD"},
	{"POST", "/readyz", "", nil, 405, "", "POST: want GET, HEAD"},
	{"POST", "/metrics", "", nil, 405, "", "POST: want GET, HEAD"},
}

func (s *server) badInput() {
	s.t.Helper()
	for _, tt := range badInput {
		a := s.ask(tt.method, tt.target, tt.body, tt.header...)
		p := a.problem(s.t)
		field, reason := "", p.Detail
		if len(p.Errors) > 0 {
			field, reason = p.Errors[0].Field, p.Errors[0].Reason
		}
		if a.status != tt.status || p.Status != tt.status || field != tt.field || tt.reason != "" && reason != tt.reason {
			s.t.Errorf("%s %s %.80s %v:\ngot  %d %q %q\nwant %d %q %q", tt.method, tt.target, tt.body, tt.header,
				a.status, field, reason, tt.status, tt.field, tt.reason)
		}
	}
}

func TestBadInputIsNamedAndChargesNothing(t *testing.T) {
	s := local(t)
	s.badInput()
	if c := s.limiter.Inspect().Counters; c.Allowed+c.Denied != 0 {
		t.Errorf("%+v: want nothing decided", c)
	}
	s.remaining("api", 5)
	s.remaining("gcra", 5)
}

func TestSeveralFaultsAreNamedAtOnce(t *testing.T) {
	s := local(t)
	for _, tt := range []struct {
		body string
		want []string
	}{
		{
			`{"requests":[{"policy":7},{"subject":"a","cost":"1","x":{}}],"mode":"allow"}`,
			[]string{"requests", "requests[0].policy", "requests[1].cost", "requests[1].x"},
		},
		{
			`{"requests":[{"policy":"api"},{"policy":"api","subject":"a","cost":6},{"policy":"x","subject":"a","cost":0}],"all_or_none":true}`,
			[]string{"requests[0].subject", "requests[1].cost", "requests[2].policy", "requests[2].cost"},
		},
		{`{"policy":"x","cost":-1,"mode":"?"}`, []string{"subject", "policy", "cost", "mode"}},
	} {
		var got []string
		for _, e := range s.ask("POST", "/v1/check", tt.body).problem(t).Errors {
			got = append(got, e.Field)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: fields: (-want +got)\n%s", tt.body, diff)
		}
	}
}

func TestSlowBodyIsCutOffAndChargesNothing(t *testing.T) {
	s := local(t)
	for _, path := range []string{"/v1/check", "/v1/refund", "/v1/reset"} {
		s.slow(path)
	}
	s.remaining("api", 5)
}

// slow begins to send a body and doesn't end.
func (s *server) slow(path string) {
	s.t.Helper()
	h := s.api.Public()
	if path == "/v1/reset" {
		h = s.api.Admin()
	}
	at := start(s.t, h, 100*time.Millisecond)
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", at.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer "+token+
		"\r\nContent-Length: 30\r\n\r\n{\"policy\":\"api\",")
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	head, body, _ := bytes.Cut(text, []byte("\r\n\r\n"))
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 408 ")) {
		s.t.Errorf("%s answers a slow client %q, want 408", path, head)
	}
	s.contract.check(s.t, "POST", path, 408, http.Header{"Content-Type": {"application/problem+json"}}, body)
}

func TestCheckDecides(t *testing.T) {
	s := local(t)
	for _, tt := range []struct {
		body string
		want answer.Decision // but for the times
	}{
		{`{"policy":"api","subject":"a"}`, answer.Decision{Allowed: true, Granted: 1, Remaining: 4}},
		{`{"policy":"api","subject":"a","cost":3}`, answer.Decision{Allowed: true, Granted: 3, Remaining: 1}},
		{`{"policy":"api","subject":"a","cost":2}`, answer.Decision{Remaining: 1}},
		{`{"policy":"api","subject":"a","cost":9,"mode":"at_most"}`, answer.Decision{Allowed: true, Granted: 1}},
		{`{"policy":"api","subject_base64":"YQ=="}`, answer.Decision{}}, // a
		{`{"policy":"api","subject":"b","cost":7,"mode":"charge"}`, answer.Decision{Allowed: true, Granted: 7}},
		{`{"policy":"api","subject":"b"}`, answer.Decision{}},
		{`{"policy":"api","subject":"vip:b","cost":50}`, answer.Decision{Allowed: true, Granted: 50}},
	} {
		got := s.check(tt.body).Decision
		if tt.want.Allowed == (got.RetryAfterUS > 0) && !strings.Contains(tt.body, "charge") || got.ResetAfterUS <= 0 {
			t.Errorf("%s: %+v, whose times can't be", tt.body, got)
		}
		got.RetryAfterUS, got.ResetAfterUS, got.Limit = 0, 0, ""
		tt.want.Policy, tt.want.Source = "api", "memory"
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.body, diff)
		}
	}
}

// many posts a check of many and returns the decisions.
func (s *server) many(body string) decisions {
	s.t.Helper()
	a := s.ask("POST", "/v1/check", body)
	var d decisions
	if err := json.Unmarshal(a.body, &d); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("check %s: %d %s (%v)", body, a.status, a.body, err)
	}
	return d
}

func TestManyRequestsAreIndependentUnlessAllOrNone(t *testing.T) {
	s := local(t)
	const three = `{"requests":[{"policy":"api","subject":"a","cost":3},{"policy":"api","subject":"b","cost":6},{"policy":"closed","subject":"a"},{"policy":"api"}]`
	d := s.many(three + `}`)
	if d.Allowed || d.Decisions[0].Decision == nil || !d.Decisions[0].Allowed || d.Decisions[1].Problem == nil || d.Decisions[1].Problem.Status != 422 || d.Decisions[2].Decision == nil || !d.Decisions[2].Allowed || d.Decisions[3].Problem == nil {
		t.Errorf("independent: %+v: want the first and the third allowed, and why not the others", d)
	}
	s.remaining("api", 2)

	const pair = `{"requests":[{"policy":"closed","subject":"a","cost":4},{"policy":"api","subject":"a","cost":%d}],"all_or_none":true}`
	d = s.many(strings.Replace(pair, "%d", "3", 1))
	if d.Allowed || d.Decisions[0].Granted+d.Decisions[1].Granted != 0 {
		t.Errorf("all or none: %+v: want none", d)
	}
	s.remaining("closed", 4)
	d = s.many(strings.Replace(pair, "%d", "2", 1))
	if !d.Allowed || d.Decisions[0].Granted != 4 || d.Decisions[1].Granted != 2 {
		t.Errorf("all or none: %+v: want all", d)
	}
	s.remaining("closed", 0)
}

func TestRefundGivesBackOnceWhileTheReceiptIsKnown(t *testing.T) {
	s := local(t)
	first := s.check(`{"policy":"api","subject":"a","cost":4,"receipt":true}`)
	s.remaining("api", 1)
	for range 2 {
		if a := s.ask("POST", "/v1/refund", `{"receipt":"`+first.Receipt+`"}`); a.status != http.StatusNoContent {
			t.Fatalf("refund: %d %s, want 204", a.status, a.body)
		}
		s.remaining("api", 5)
	}
	if d := s.check(`{"policy":"api","subject":"a"}`); d.Receipt != "" {
		t.Errorf("%+v: want no receipt where none is asked for", d)
	}
	for range 3 { // as many as are kept
		s.check(`{"policy":"api","subject":"b","receipt":true}`)
	}
	if a := s.ask("POST", "/v1/refund", `{"receipt":"`+first.Receipt+`"}`); a.status != http.StatusNotFound {
		t.Errorf("refund by a receipt that is forgotten: %d %s, want 404", a.status, a.body)
	}
}

func TestResetForgets(t *testing.T) {
	s := local(t)
	s.check(`{"policy":"api","subject":"a","cost":5}`)
	if a := s.ask("POST", "/v1/reset", `{"policy":"api","subject":"a"}`); a.status != http.StatusNoContent {
		t.Errorf("reset: %d %s, want 204", a.status, a.body)
	}
	s.remaining("api", 5)
}

func TestAuthorizeAnswersAProxy(t *testing.T) {
	s := local(t)
	const policy = `"api:5/h";q=5;w=3600, "api:100/d fixed_window";q=100;w=86400`
	for _, tt := range []struct {
		target string
		header []string
		status int
		left   string // of RateLimit
	}{
		{"/v1/authorize?subject=a", nil, 200, `"api:5/h";r=4`},
		{"/v1/authorize?subject=a", []string{"X-Api-Key", "b"}, 200, `"api:5/h";r=3`}, // the query goes first
		{"/v1/authorize?cost=3", []string{"X-Api-Key", "a", "X-Real-IP", "b"}, 200, `"api:5/h";r=0`},
		{"/v1/authorize", []string{"X-Real-IP", "a"}, 429, `"api:5/h";r=0`},
		{"/v1/authorize", []string{"X-Api-Key", "b"}, 200, `"api:5/h";r=4`},
		{"/v1/authorize?policy=closed", []string{"X-Api-Key", "b", "X-Policy", "gcra"}, 200, `"closed";r=4`},
		{"/v1/authorize", []string{"X-Api-Key", "b", "X-Policy", "gcra"}, 200, `"gcra";r=4`},
	} {
		a := s.ask("GET", tt.target, "", tt.header...)
		got, _, _ := strings.Cut(a.header.Get("RateLimit"), ";t=")
		retry := a.header.Get("Retry-After")
		if a.status != tt.status || got != tt.left || (retry != "") != (tt.status == 429) {
			t.Errorf("%s %v: %d, RateLimit %q, Retry-After %q; want %d, %q", tt.target, tt.header, a.status, got, retry, tt.status, tt.left)
		}
		if p := a.header.Get("RateLimit-Policy"); strings.HasPrefix(tt.left, `"api`) && p != policy {
			t.Errorf("%s: RateLimit-Policy %q, want %q", tt.target, p, policy)
		}
	}
}

func TestShadowedDecisionsSaySo(t *testing.T) {
	s := local(t)
	if d := s.check(`{"policy":"shadow","subject":"a","cost":5}`); d.Shadowed {
		t.Errorf("%+v: want it to pass by itself", d)
	}
	if d := s.check(`{"policy":"shadow","subject":"a","receipt":true}`); !d.Allowed || !d.Shadowed {
		t.Errorf("%+v: want it allowed, and shadowed", d)
	}
}

func TestDrainingIsNotReady(t *testing.T) {
	s := local(t)
	if a := s.ask("GET", "/readyz", ""); a.status != http.StatusOK {
		t.Errorf("readyz: %d %s, want 200", a.status, a.body)
	}
	s.api.Drain()
	if a := s.ask("GET", "/readyz", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("readyz while draining: %d %s, want 503", a.status, a.body)
	}
	if a := s.ask("GET", "/healthz", ""); a.status != http.StatusOK {
		t.Errorf("healthz while draining: %d %s, want 200", a.status, a.body)
	}
}

func TestAdminRoutesAreNotPublic(t *testing.T) {
	s := local(t)
	for _, path := range []string{"/v1/inspect", "/v1/reset", "/debug/pprof/"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.api.Public().ServeHTTP(w, r)
		if w.Code != http.StatusNotFound {
			t.Errorf("%s on the public listener: %d, want 404", path, w.Code)
		}
		r.Header.Del("Authorization")
		w = httptest.NewRecorder()
		s.api.Admin().ServeHTTP(w, r)
		if want := http.StatusUnauthorized; path != "/v1/reset" && w.Code != want {
			t.Errorf("%s on the admin listener without the token: %d, want %d", path, w.Code, want)
		}
	}
}
