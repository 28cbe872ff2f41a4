package middleware_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

// ask prints what a handler answers to a client.
func ask(h http.Handler, path, addr string) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	r.RemoteAddr = addr + ":1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		fmt.Println(w.Code, w.Header()["Ratelimit"])
		return
	}
	wait, err := time.ParseDuration(w.Header().Get("Retry-After") + "s")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Code, "come back in", wait.Round(time.Minute))
}

func ExampleNew() {
	limiter, err := shardlimit.NewLocal(shardlimit.Config{}) // or Open, for a Redis Cluster
	if err != nil {
		log.Fatal(err)
	}
	clients, err := middleware.NewClients(middleware.ClientConfig{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, // of the load balancers
	})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Config{
		Limiter: limiter,
		Policy: middleware.Always(shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(2)},
		})),
		Subject: clients.Subject,
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "items") })
	server := limit(mux)

	for range 3 {
		ask(server, "/items", "192.0.2.1")
	}
	ask(server, "/items", "192.0.2.2")
	// Output:
	// 200 ["api";r=1;t=1800]
	// 200 ["api";r=0;t=1800]
	// 429 come back in 30m0s
	// 200 ["api";r=1;t=1800]
}

// A policy for each route of a ServeMux, by its patterns; what has none isn't
// limited.
func ExampleNew_routes() {
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /items/{id}", "GET /report", "GET /health"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Pattern) })
	}
	policies := map[string]*shardlimit.Policy{
		"GET /items/{id}": shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "items", Limits: []shardlimit.Limit{shardlimit.PerHour(100)}}),
		"GET /report":     shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "report", Limits: []shardlimit.Limit{shardlimit.PerHour(10)}}),
	}
	cost := func(r *http.Request) int64 {
		if r.URL.Query().Has("full") {
			return 5
		}
		return 1
	}
	limiter, err := shardlimit.NewLocal(shardlimit.Config{})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Config{
		Limiter: limiter,
		Policy: func(r *http.Request) *shardlimit.Policy {
			_, pattern := mux.Handler(r)
			return policies[pattern]
		},
		Subject: middleware.FirstOf(middleware.APIKey("X-API-Key"), func(r *http.Request) string { return r.RemoteAddr }),
		Cost:    cost,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"/items/1", "/items/2", "/report?full", "/health"} {
		ask(limit(mux), path, "192.0.2.1")
	}
	// Output:
	// 200 ["items";r=99;t=3564]
	// 200 ["items";r=98;t=3528]
	// 200 ["report";r=5;t=1800]
	// 200 []
}

// The body of a denial in the service's own form.
func ExampleConfig_respond() {
	limiter, err := shardlimit.NewLocal(shardlimit.Config{})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Config{
		Limiter: limiter,
		Policy: middleware.Always(shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "login", Limits: []shardlimit.Limit{shardlimit.PerHour(4).WithBurst(1)},
		})),
		Subject: middleware.Path,
		Respond: func(w http.ResponseWriter, _ *http.Request, f middleware.Refusal) {
			w.WriteHeader(f.Status)
			_, _ = fmt.Fprintf(w, "Please come back in %v.", f.Result.RetryAfter.Round(time.Minute))
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Welcome.") }))
	for range 2 {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/login", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 Welcome.
	// 429 Please come back in 15m0s.
}
