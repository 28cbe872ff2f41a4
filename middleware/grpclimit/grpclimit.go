// Package grpclimit limits the calls of a gRPC server.
//
//	limit, err := grpclimit.New(grpclimit.Config{
//		Limiter: limiter,
//		Policy:  grpclimit.Always(policy),
//		Subject: grpclimit.HTTP(middleware.APIKey("x-api-key")),
//	})
//	...
//	grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
//
// A call is decided about before its handler runs; a stream once, as it begins.
// What a call that doesn't go through is answered:
//
//	decision                               code                detail
//	denied                                 RESOURCE_EXHAUSTED  RetryInfo
//	denied by FailClosed, Redis is away    UNAVAILABLE         RetryInfo
//	the call names no subject              INVALID_ARGUMENT
//	an error: Redis is set up wrongly      INTERNAL
//	the caller is gone, or out of time     CANCELED, DEADLINE_EXCEEDED
//
// The fields that package middleware sends are in the header metadata of each
// call that was decided about, in lower case: ratelimit-policy, ratelimit, and
// of a denial retry-after.
package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

// Call is a call before its handler runs.
type Call struct {
	Method  string // in full, as in "/package.Service/Method"
	Request any    // the message of a unary call; nil of a stream
}

// Config is what interceptors are made with.
type Config struct {
	// Limiter decides; needed.
	Limiter middleware.Limiter
	// Policy returns the policy that a call comes under, or nil if it isn't
	// limited; needed. [Always] returns the same for all.
	Policy func(context.Context, Call) *shardlimit.Policy
	// Subject returns whom a call is counted for; needed. Where it returns "",
	// the call is refused, as it would be unlimited else.
	Subject Subject
	// Cost returns the units that a call takes; nil means 1 for all. A cost that
	// can never pass is an error: what clients say of it must be bounded.
	Cost func(context.Context, Call) int64
}

// Interceptors limit the calls of a server. They are safe for concurrent use.
// New makes them.
type Interceptors struct{ config Config }

// Always returns a function that returns p for each call.
func Always(p *shardlimit.Policy) func(context.Context, Call) *shardlimit.Policy {
	return func(context.Context, Call) *shardlimit.Policy { return p }
}

// New returns the interceptors. The error joins a *shardlimit.ConfigError for
// each field that is needed and isn't set.
func New(c Config) (*Interceptors, error) {
	var faults []error
	needed := func(missing bool, field string) {
		if missing {
			faults = append(faults, &shardlimit.ConfigError{Field: field, Reason: "is needed"})
		}
	}
	needed(c.Limiter == nil, "Limiter")
	needed(c.Policy == nil, "Policy")
	needed(c.Subject == nil, "Subject")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if c.Cost == nil {
		c.Cost = func(context.Context, Call) int64 { return 1 }
	}
	return &Interceptors{config: c}, nil
}

// Unary is a [grpc.UnaryServerInterceptor].
func (i *Interceptors) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	setHeader := func(h metadata.MD) error { return grpc.SetHeader(ctx, h) }
	if err := i.admit(ctx, Call{Method: info.FullMethod, Request: request}, setHeader); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// Stream is a [grpc.StreamServerInterceptor].
func (i *Interceptors) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := i.admit(stream.Context(), Call{Method: info.FullMethod}, stream.SetHeader); err != nil {
		return err
	}
	return handle(server, stream)
}

// admit returns why the call doesn't go through, if so.
func (i *Interceptors) admit(ctx context.Context, call Call, setHeader func(metadata.MD) error) error {
	p := i.config.Policy(ctx, call)
	if p == nil {
		return nil
	}
	r, err := i.config.Limiter.AllowN(ctx, p, i.config.Subject(ctx, call), i.config.Cost(ctx, call))
	if err != nil {
		return refused(err)
	}
	_ = setHeader(fields(p, r)) // where the header is sent already, the decision stands all the same
	return denied(r)
}
