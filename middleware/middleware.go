// Package middleware limits the requests of an HTTP server.
//
// [New] makes a func(http.Handler) http.Handler, which is what http.ServeMux,
// chi and most other routers take:
//
//	clients, err := middleware.NewClients(middleware.ClientConfig{Trusted: proxies})
//	...
//	limit, err := middleware.New(middleware.Config{
//		Limiter: limiter,
//		Policy:  middleware.Always(policy),
//		Subject: clients.Subject,
//	})
//	...
//	http.ListenAndServe(addr, limit(mux))
//
// What a request is answered, before its handler runs or in its place:
//
//	decision                               status  Retry-After  RateLimit-Policy  RateLimit
//	no policy                              none    no           no                no
//	allowed                                none    no           yes               yes
//	allowed by FailOpen, Redis is away     none    no           yes               no
//	allowed by FailLocal, Redis is away    none    no           yes               no
//	of a Shadow policy, whatever it is     none    no           no                no
//	denied                                 429     yes          yes               yes
//	denied by FailLocal, Redis is away     429     yes          yes               no
//	denied by FailClosed, Redis is away    503     yes          yes               no
//	no decision within the request's time  503     no           no                no
//	the request names no subject           400     no           no                no
//	an error: Redis is set up wrongly      500     no           no                no
//	the caller is gone                     503     no           no                no
//
// The last has no body, and mostly nobody who reads it: but a client that has only
// closed its own side, or a log, is not to take it for served.
//
// RateLimit-Policy and RateLimit are those of [draft-ietf-httpapi-ratelimit-headers-11],
// see [SetHeaders]. Two middlewares, one in the other, make two decisions, as
// for a user and for an address: their fields add up, and the outer one has
// charged even if the inner one denies.
//
// [draft-ietf-httpapi-ratelimit-headers-11]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
package middleware

import (
	"context"
	"errors"
	"net/http"

	"github.com/shardlimit/shardlimit"
)

// Limiter decides about requests: a [shardlimit.Limiter] does.
type Limiter interface {
	AllowN(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error)
}

// Config is what a middleware is made with.
type Config struct {
	// Limiter decides; needed.
	Limiter Limiter
	// Policy returns the policy that a request comes under, or nil if it isn't
	// limited; needed. [Always] returns the same for all.
	Policy func(*http.Request) *shardlimit.Policy
	// Subject returns whom a request is counted for; needed. Where it returns
	// "", the request is answered 400, as it would be unlimited else.
	Subject Subject
	// Cost returns the units that a request takes; nil means 1 for all. A cost
	// that can never pass is an error, answered 500: what clients say of it
	// must be bounded.
	Cost func(*http.Request) int64
	// Respond answers a request that doesn't go through. Its header fields are
	// set, but no status is written yet. nil means [Respond].
	Respond func(http.ResponseWriter, *http.Request, Refusal)
	// XRateLimit adds X-RateLimit-Limit, X-RateLimit-Remaining and
	// X-RateLimit-Reset, the last in seconds from now, for clients that know
	// nothing newer. They hold one policy: the last that decided.
	XRateLimit bool
}

// Always returns a function that returns p for each request.
func Always(p *shardlimit.Policy) func(*http.Request) *shardlimit.Policy {
	return func(*http.Request) *shardlimit.Policy { return p }
}

// New returns a middleware. The error joins a *shardlimit.ConfigError for each
// field that is needed and isn't set.
func New(c Config) (func(http.Handler) http.Handler, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Cost == nil {
		c.Cost = func(*http.Request) int64 { return 1 }
	}
	if c.Respond == nil {
		c.Respond = Respond
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.admit(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}, nil
}

// check returns every fault of c.
func (c *Config) check() error {
	var faults []error
	needed := func(missing bool, field string) {
		if missing {
			faults = append(faults, &shardlimit.ConfigError{Field: field, Reason: "is needed"})
		}
	}
	needed(c.Limiter == nil, "Limiter")
	needed(c.Policy == nil, "Policy")
	needed(c.Subject == nil, "Subject")
	return errors.Join(faults...)
}

// admit reports whether the request goes through, and answers it if not.
func (c *Config) admit(w http.ResponseWriter, r *http.Request) bool {
	p := c.Policy(r)
	if p == nil {
		return true
	}
	subject := c.Subject(r)
	result, err := c.Limiter.AllowN(r.Context(), p, subject, c.Cost(r))
	if err == nil {
		SetHeaders(w.Header(), p, result)
		if c.XRateLimit {
			setOldHeaders(w.Header(), p, result)
		}
	}
	switch status := Status(result, err); status {
	case http.StatusOK:
		return true
	case 0:
		w.WriteHeader(http.StatusServiceUnavailable) // else the server makes it 200
		return false
	default:
		c.Respond(w, r, Refusal{Status: status, Policy: p, Subject: subject, Result: result, Err: err})
		return false
	}
}
