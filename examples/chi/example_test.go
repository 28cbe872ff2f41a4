// Package chi_test shows package middleware with a router of chi's style.
package chi_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

// Every client has a limit over all routes, and where it costs more another one
// for the route: groups and single routes take the same middleware as the whole
// router. Within the router a route's pattern is known, so a subject can be the
// route and the client.
func Example() {
	limiter, err := shardlimit.NewLocal(shardlimit.Config{}) // or Open, for a Redis Cluster
	if err != nil {
		log.Fatal(err)
	}
	client := middleware.APIKey("X-API-Key")
	route := func(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() }

	router := chi.NewRouter()
	router.Use(limit(limiter, "all", shardlimit.PerHour(5), client))
	router.Get("/items/{id}", answer)
	router.Group(func(dear chi.Router) {
		dear.Use(limit(limiter, "dear", shardlimit.PerHour(1), middleware.Join(route, client)))
		dear.Get("/reports/{year}", answer)
		dear.Get("/exports/{year}", answer)
	})

	for _, path := range []string{"/items/1", "/reports/2025", "/reports/2026", "/exports/2026", "/items/2", "/items/3"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
		r.Header.Set("X-API-Key", "k1")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Println(path, w.Code, left(w))
	}
	// Output:
	// /items/1 200 ["all";r=4;t=2880]
	// /reports/2025 200 ["all";r=3;t=2160 "dear";r=0;t=3600]
	// /reports/2026 429 []
	// /exports/2026 200 ["all";r=1;t=720 "dear";r=0;t=3600]
	// /items/2 200 ["all";r=0;t=720]
	// /items/3 429 []
}

// left returns what an answer says is left, unless it was denied: how long that
// will be so changes by the second.
func left(w *httptest.ResponseRecorder) []string {
	if w.Code != http.StatusOK {
		return nil
	}
	return w.Header()["Ratelimit"]
}

// limit returns a middleware of one limit.
func limit(l *shardlimit.Limiter, name string, of shardlimit.Limit, subject middleware.Subject) func(http.Handler) http.Handler {
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: name, Limits: []shardlimit.Limit{of}})
	m, err := middleware.New(middleware.Config{Limiter: l, Policy: middleware.Always(p), Subject: subject})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

func answer(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }
