package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
)

// guarded returns what asks the admin listener of an API with this token, which
// is called admin.example and 10.0.0.7 too, and shows the token.
func guarded(t *testing.T, c *contract, token string) func(method, path, host string, header ...string) (int, Problem) {
	t.Helper()
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	s := serve(t, closing.Opened(t, l, err), c)
	s.api.Token, s.api.AdminHosts = token, []string{"admin.example", "10.0.0.7:8081"}
	h := s.api.Guard(s.api.Admin())
	return func(method, path, host string, header ...string) (int, Problem) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8081"+path, strings.NewReader(`{"policy":"api","subject":"a"}`))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		path, _, _ = strings.Cut(path, "?")
		a := response{w.Code, w.Header(), w.Body.Bytes()}
		if path == "/v1/inspect" || path == "/v1/reset" {
			s.contract.check(t, method, path, a.status, a.header, a.body)
		}
		if a.status != http.StatusForbidden {
			return a.status, Problem{}
		}
		return a.status, a.problem(t)
	}
}

func TestWithoutATokenTheAdminListenerTakesItsOwnNamesAlone(t *testing.T) {
	ask := guarded(t, newContract(t), "")
	for _, own := range []string{
		"localhost", "localhost:8081", "LocalHost.:8081", "a.localhost:8081", "127.0.0.1:8081", "127.9.9.9", "[::1]:8081", "[::1]",
		"admin.example:8081", "ADMIN.example", "10.0.0.7", "10.0.0.7:9999",
	} {
		if status, _ := ask("GET", "/v1/inspect", own); status != http.StatusOK {
			t.Errorf("Host %q: %d, want 200", own, status)
		}
	}
	for _, foreign := range []string{
		"", "evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1.evil.example:8081",
		"10.0.0.8:8081", "0.0.0.0:8081", "notlocalhost", "[::2]:8081", "admin.example.evil.example", "localhost:8081:8081", "@localhost",
	} {
		for _, path := range []string{"/v1/inspect", "/metrics", "/healthz", "/debug/pprof/"} {
			if status, p := ask("GET", path, foreign); status != http.StatusForbidden || !strings.HasSuffix(p.Type, ":foreign-host") {
				t.Errorf("GET %s, Host %q: %d %+v, want 403 for the host", path, foreign, status, p)
			}
		}
		if status, _ := ask("POST", "/v1/reset", foreign); status != http.StatusForbidden {
			t.Errorf("POST /v1/reset, Host %q: %d, want 403", foreign, status)
		}
	}
}

func TestWithATokenTheAdminListenerHasAnyName(t *testing.T) {
	ask := guarded(t, newContract(t), "s3cr3t")
	if status, _ := ask("GET", "/v1/inspect", "limits.example:8081"); status != http.StatusOK {
		t.Errorf("by the token: %d, want 200", status)
	}
	if status, _ := ask("GET", "/v1/inspect", "limits.example:8081", "Authorization", ""); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d, want 401", status)
	}
}

func TestTheAdminListenerTakesNothingThatAPageOfAnotherSiteSends(t *testing.T) {
	for _, token := range []string{"", "s3cr3t"} {
		ask := guarded(t, newContract(t), token)
		for _, elsewhere := range [][]string{
			{"Origin", "http://evil.example"},
			{"Origin", "null"},
			{"Origin", "http://localhost:3000"},
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
		} {
			if status, p := ask("POST", "/v1/reset", "localhost:8081", elsewhere...); status != http.StatusForbidden || !strings.HasSuffix(p.Type, ":cross-origin") {
				t.Errorf("POST /v1/reset with %v: %d %+v, want 403 for the origin", elsewhere, status, p)
			}
		}
		for _, here := range [][]string{{}, {"Origin", "http://localhost:8081"}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
			if status, _ := ask("POST", "/v1/reset", "localhost:8081", here...); status != http.StatusNoContent {
				t.Errorf("POST /v1/reset with %v: %d, want 204", here, status)
			}
		}
	}
}
