package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/api"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

func BenchmarkCheck(b *testing.B) {
	c, err := config.Parse("", []byte("policies: [{name: api, limits: [1000000/s]}]"))
	if err != nil {
		b.Fatal(err)
	}
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }() // it holds nothing
	h := api.New(api.Options{
		Limiter: l, Config: func() *config.Config { return c }, Status: func() reload.Status { return reload.Status{} }, Receipts: 1, Metrics: http.NotFoundHandler(),
	}).Public()
	one := `{"policy":"api","subject":"user:42"}`
	for name, body := range map[string]string{
		"one": one,
		"16":  `{"requests":[` + strings.Repeat(one+",", 15) + one + `]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/check", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatalf("answers %d %s", w.Code, w.Body)
				}
			}
		})
	}
}
