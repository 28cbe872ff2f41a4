// Package api answers what HTTP asks of a limiter: may this request go ahead,
// who decided, take that back.
//
// What it speaks is in openapi.yaml, which it serves too.
package api

import (
	"context"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

// Limiter is what decides; a *shardlimit.Limiter is one.
type Limiter interface {
	AllowN(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error)
	AllowAll(ctx context.Context, requests ...shardlimit.Request) ([]shardlimit.Result, error)
	AllowEach(ctx context.Context, requests ...shardlimit.Request) []shardlimit.Outcome
	AllowAtMost(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error)
	Charge(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error)
	Peek(ctx context.Context, p *shardlimit.Policy, subject string) (shardlimit.Result, error)
	Refund(ctx context.Context, r shardlimit.Result) error
	Reset(ctx context.Context, p *shardlimit.Policy, subject string) error
	Inspect() shardlimit.Snapshot
}

// Options are what an API is made of.
type Options struct {
	Limiter  Limiter
	Config   func() *config.Config // what holds now
	Status   func() reload.Status  // of the configuration
	Metrics  http.Handler
	Token    string // that the admin routes ask for; "": they don't
	Receipts int    // how many are kept, at least 1

	// AdminHosts are names and addresses of the admin listener beside those of
	// loopback.
	AdminHosts []string
}

// API is the handlers of one daemon. It is safe for concurrent use. New makes
// one; the zero API is useless.
type API struct {
	Options
	receipts *receipts
	draining atomic.Bool
}

// New returns the handlers that o describes.
func New(o Options) *API {
	return &API{Options: o, receipts: newReceipts(o.Receipts)}
}

// Public returns the routes for those who ask for decisions.
func (a *API) Public() http.Handler {
	r := a.routes()
	r.handle(http.MethodPost, "/v1/check", a.check)
	r.handle(http.MethodPost, "/v1/refund", a.refund)
	r.handle(http.MethodGet, "/v1/authorize", a.authorize)
	r.handle(http.MethodGet, "/v1/openapi.yaml", openAPI)
	return r.mux
}

// Admin returns the routes for operators. Where there is a token, they ask for
// it, but for those that Public has too.
func (a *API) Admin() http.Handler {
	r := a.routes()
	r.handle(http.MethodGet, "/v1/inspect", a.authenticated(a.inspect))
	r.handle(http.MethodPost, "/v1/reset", a.authenticated(a.reset))
	r.mux.HandleFunc("/debug/pprof/", a.authenticated(pprof.Index))
	r.mux.HandleFunc("/debug/pprof/profile", a.authenticated(pprof.Profile))
	r.mux.HandleFunc("/debug/pprof/trace", a.authenticated(pprof.Trace))
	return r.mux
}

// Drain makes the daemon unready, so that nobody sends it more.
func (a *API) Drain() { a.draining.Store(true) }

// routes returns the routes that both have.
func (a *API) routes() routes {
	r := routes{http.NewServeMux(), &a.draining}
	r.mux.HandleFunc("/", notFound)
	r.handle(http.MethodGet, "/healthz", a.healthz)
	r.handle(http.MethodGet, "/readyz", a.readyz)
	r.handle(http.MethodGet, "/metrics", a.Metrics.ServeHTTP)
	return r
}

// routes are handlers by method and path. Every other request gets a problem.
type routes struct {
	mux      *http.ServeMux
	draining *atomic.Bool
}

func (r routes) handle(method, path string, h http.HandlerFunc) {
	r.mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, req *http.Request) {
		if r.draining.Load() { // the client asks the next one elsewhere
			w.Header().Set("Connection", "close")
		}
		h(w, req)
	})
	r.mux.HandleFunc(path, wrongMethod(method))
}
