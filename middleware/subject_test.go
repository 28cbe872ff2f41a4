package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shardlimit/shardlimit/middleware"
)

// says returns a Subject that is always s.
func says(s string) middleware.Subject { return func(*http.Request) string { return s } }

func TestSubjectsSayWhomARequestIsCountedFor(t *testing.T) {
	key := middleware.APIKey("X-API-Key")
	for _, tt := range []struct {
		name    string
		subject middleware.Subject
		want    string
	}{
		{"API key", key, "key:s3cret"},
		{"API key that isn't sent", middleware.APIKey("X-Other"), ""},
		{"path", middleware.Path, "path:/v1/items"},
		{"join", middleware.Join(key, middleware.Path), "key:s3cret|path:/v1/items"},
		{"join of a part that is missing", middleware.Join(key, says("")), ""},
		{"join of one part that looks like two", middleware.Join(says("a|b"), says("c")), "a%7Cb|c"},
		{"join of another that looks the same", middleware.Join(says("a"), says("b|c")), "a|b%7Cc"},
		{"join of what is encoded already", middleware.Join(says("a%7Cb")), "a%257Cb"},
		{"first", middleware.FirstOf(says(""), key, middleware.Path), "key:s3cret"},
		{"first of none", middleware.FirstOf(says(""), says("")), ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/items?page=2", nil)
		r.Header.Set("X-API-Key", "s3cret")
		if got := tt.subject(r); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
