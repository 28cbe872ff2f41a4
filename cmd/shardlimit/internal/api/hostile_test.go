package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestWhatIsNoValueOfItsFieldIsRefused: each of these was once decided as another question.
func TestWhatIsNoValueOfItsFieldIsRefused(t *testing.T) {
	s := local(t)
	const requests = `"requests":[{"policy":"api","subject":"a"}]`
	for _, tt := range []struct {
		path, body string
		status     int
		field      string // or part of the detail
	}{
		{"/v1/check", `{"policy":"api","subject":"\ud800"}`, 400, "surrogate"},
		{"/v1/check", `{"policy":"api","subject":"a\uDFFFb"}`, 400, "surrogate"},
		{"/v1/check", `{"policy":"api","subject":"\ud83d\u0041"}`, 400, "surrogate"},
		{"/v1/check", `{"policy":"api","subject":"\\\ud800"}`, 400, "surrogate"},
		{"/v1/check", `{"policy":"api","\ud800":1}`, 400, "surrogate"},
		{"/v1/check", `{"policy":"api","subject_base64":[97]}`, 422, "subject_base64"},
		{"/v1/check", `{"policy":"api","subject":"a","subject_base64":""}`, 422, "subject_base64"},
		{"/v1/check", `{"policy":"api","subject":"","subject_base64":"YQ=="}`, 422, "subject_base64"},
		{"/v1/check", `{"policy":null,"subject":"a"}`, 422, "policy"},
		{"/v1/check", `{"policy":"api","subject":"a","cost":null}`, 422, "cost"},
		{"/v1/check", `{"policy":"api","subject":"a","receipt":null}`, 422, "receipt"},
		{"/v1/check", `{"policy":"api","subject":"a","requests":null}`, 422, "requests"},
		{"/v1/check", `{"policy":"api","subject":"a","cost":1.0}`, 422, "cost"},
		{"/v1/check", `{"policy":"api","subject":"a","cost":1e0}`, 422, "cost"},
		{"/v1/check", `{"policy":"",` + requests + `}`, 422, "requests"},
		{"/v1/check", `{"mode":"",` + requests + `}`, 422, "requests"},
		{"/v1/check", `{"subject_base64":"",` + requests + `}`, 422, "requests"},
		{"/v1/refund", `{}`, 422, "receipt"},
		{"/v1/refund", `{"receipt":""}`, 422, "receipt"},
		{"/v1/refund", `{"receipt":null}`, 422, "receipt"},
		{"/v1/reset", `{"policy":"api","subject":"a","subject_base64":"YQ=="}`, 422, "subject_base64"},
	} {
		a := s.ask("POST", tt.path, tt.body)
		p := a.problem(t)
		field := p.Detail
		if len(p.Errors) > 0 {
			field = p.Errors[0].Field
		}
		if a.status != tt.status || !strings.Contains(field, tt.field) {
			t.Errorf("%s %s: %d %q, want %d about %s", tt.path, tt.body, a.status, field, tt.status, tt.field)
		}
	}
	if c := s.limiter.Inspect().Counters; c.Allowed+c.Denied != 0 {
		t.Errorf("%+v: want nothing decided", c)
	}
}

func TestEscapesThatAreWholeCharactersAreTaken(t *testing.T) {
	s := local(t)
	for _, subject := range []string{`\ud83d\ude00`, `\uD83D\uDE00\u0041`, `\\ud800`, `\ufffd`, `\u0000`} {
		var want string
		if err := json.Unmarshal([]byte(`"`+subject+`"`), &want); err != nil {
			t.Fatal(err)
		}
		s.check(`{"policy":"api","subject":"` + subject + `","cost":2}`)
		r, err := s.limiter.Peek(t.Context(), s.api.Config().Rules.Policy("api"), want)
		if err != nil || r.Remaining != 3 {
			t.Errorf("of %s %d units remain (%v), want 3", subject, r.Remaining, err)
		}
	}
}

// TestAProblemIsNoLargerThanItsQuestion: nobody gets megabytes for what is wrong with one of them.
func TestAProblemIsNoLargerThanItsQuestion(t *testing.T) {
	s := local(t)
	long := strings.Repeat("é", 100_000)
	unknown := `{` + strings.Repeat(`"a":1,`, 100_000) + `"b":1}`
	for what, body := range map[string]string{
		"a name":          `{"` + long + `":1}`,
		"a policy":        `{"policy":"` + long + `","subject":"a"}`,
		"a mode":          `{"policy":"api","subject":"a","mode":"` + long + `"}`,
		"many fields":     unknown,
		"many in a list":  `{"requests":[` + strings.Repeat(unknown[:601]+`"b":1},`, 127) + `{}]}`,
		"many bad in one": `{"all_or_none":true,"requests":[` + strings.Repeat(`{"policy":"`+long[:1000]+`"},`, 127) + `{}]}`,
	} {
		a := s.ask("POST", "/v1/check", body)
		if a.status != http.StatusUnprocessableEntity || len(a.body) > 16<<10 || len(a.problem(t).Errors) == 0 || !utf8.Valid(a.body) {
			t.Errorf("%s: %d with %d bytes, want 422 and what is wrong in a few KiB", what, a.status, len(a.body))
		}
	}
}

func TestACodedBodyIsRefusedByItsCoding(t *testing.T) {
	s := local(t)
	const ask = `{"policy":"api","subject":"a"}`
	for coding, status := range map[string]int{"gzip": 415, "br": 415, "identity": 200, "Identity": 200} {
		a := s.ask("POST", "/v1/check", ask, "Content-Encoding", coding)
		if a.status != status || status == 415 && !strings.Contains(a.problem(t).Detail, coding) {
			t.Errorf("Content-Encoding %s: %d %s, want %d", coding, a.status, a.body, status)
		}
	}
}

// waiting is a body that nobody may read.
type waiting struct{ t *testing.T }

func (w waiting) Read([]byte) (int, error) {
	w.t.Error("the body was asked for")
	return 0, http.ErrBodyReadAfterClose
}

func TestATooLargeBodyIsRefusedBeforeItIsSent(t *testing.T) {
	s := local(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.public.URL+"/v1/check", waiting{t})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = maxBody + 1
	r.Header = http.Header{"Content-Type": {"application/json"}, "Expect": {"100-continue"}}
	a, err := (&http.Transport{ExpectContinueTimeout: time.Minute}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Body.Close(); err != nil || a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 1 MiB and a byte, announced: %d (%v), want 413", a.StatusCode, err)
	}
}

func TestTheSchemeOfATokenIsInAnyCase(t *testing.T) {
	s := local(t)
	for value, status := range map[string]int{
		"bearer " + token: 200, "BEARER   " + token: 200,
		"Basic " + token: 401, "Bearer": 401, "Bearer " + token + " " + token: 401,
	} {
		if a := s.ask("GET", "/v1/inspect", "", "Authorization", value); a.status != status {
			t.Errorf("Authorization: %s: %d, want %d", value, a.status, status)
		}
	}
}

func TestOfVeryManyFaultsTheFirstAreKept(t *testing.T) {
	if faults := object(`{`+strings.Repeat(`"a":1,`, 1000)+`"b":1}`, nil); len(faults) != maxFaults {
		t.Errorf("%d faults are kept of 1001, want %d", len(faults), maxFaults)
	}
}
