// Package envoy answers Envoy over gRPC: is this request over one of its limits?
//
// It stands in for envoyproxy/ratelimit, the reference of Envoy's
// RateLimitService, on the limits of [domains].
package envoy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
)

// Options are what a server is made of.
type Options struct {
	Limiter *shardlimit.Limiter
	// Rules returns what holds now. It is called once a request.
	Rules func() Rules
	// Ready reports whether requests should come. Those that come are answered
	// all the same.
	Ready func(context.Context) bool
	// Count is told of every descriptor that has a rule; nil for nobody.
	Count func(Hit)
}

// Rules is what Envoy is answered by.
type Rules struct {
	Domains *domains.Set
	// HandOver answers with an error where Redis can't decide, as the reference
	// does, so that Envoy's failure_mode_deny does. Else the settings of the
	// domains decide.
	HandOver bool
	// Shadow answers OK whatever the descriptors' own codes are.
	Shadow  bool
	Headers Headers // for the client of the request
}

// Hit is what became of a descriptor.
type Hit struct {
	Descriptor string // as domains.Match.Metric
	Hits       int64
	Over       bool // the limit had no room for all of them
	Shadow     bool // and the request passed all the same
}

// service decides about requests. It is safe for concurrent use.
type service struct {
	ratelimit.UnimplementedRateLimitServiceServer
	Options
}

// ShouldRateLimit decides about each descriptor by itself: one that is over its
// limit changes nothing about what the others are charged.
func (s *service) ShouldRateLimit(ctx context.Context, req *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	rules := s.Rules()
	checks, err := match(rules.Domains, req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	replace(checks)
	s.decide(ctx, checks)
	for i := range checks {
		if err := rules.failure(&checks[i]); err != nil {
			return nil, err
		}
	}
	s.count(checks, &rules)
	return rules.response(checks), nil
}

// check is one descriptor of a request, and what was decided about it.
type check struct {
	domains.Match       // its Rule is nil where nothing limits it
	hits          int64 // 0 only looks
	result        shardlimit.Result
	err           error
}

// maxChecks bounds the descriptors of a request, each of which may be a call of
// its own: far more than Envoy sends.
const maxChecks = 1000

// match returns a check for each descriptor. The error is about the request.
func match(set *domains.Set, req *ratelimit.RateLimitRequest) ([]check, error) {
	if req.GetDomain() == "" {
		return nil, errors.New("domain: must not be empty")
	}
	switch n := len(req.GetDescriptors()); {
	case n == 0:
		return nil, errors.New("descriptors: must have at least one")
	case n > maxChecks:
		return nil, fmt.Errorf("descriptors: %d must be at most %d", n, maxChecks)
	}
	checks := make([]check, len(req.GetDescriptors()))
	for i, d := range req.GetDescriptors() {
		c, err := matchOne(set, req, d)
		if err != nil {
			return nil, fmt.Errorf("descriptors[%d].%w", i, err)
		}
		checks[i] = c
	}
	return checks, nil
}

// replace drops the rules that another rule of the request stands in for.
func replace(checks []check) {
	replaced := map[string]bool{}
	for _, c := range checks {
		if c.Rule != nil {
			for _, name := range c.Rule.Replaces {
				replaced[name] = true
			}
		}
	}
	for i := range checks {
		if c := &checks[i]; c.Rule != nil && c.Rule.Name != "" && replaced[c.Rule.Name] {
			c.Match = domains.Match{}
		}
	}
}

// decide asks the limiter about all that it has to decide, side by side.
func (s *service) decide(ctx context.Context, checks []check) {
	var single []*check
	var others sync.WaitGroup
	for i := range checks {
		c := &checks[i]
		switch {
		case c.Rule == nil || c.Rule.Policy == nil: // it is decided already
		case c.hits == 1:
			single = append(single, c)
		default:
			others.Go(func() { c.result, c.err = s.take(ctx, c) })
		}
	}
	s.takeSingle(ctx, single)
	others.Wait()
}

// takeSingle asks for one hit each.
func (s *service) takeSingle(ctx context.Context, checks []*check) {
	if len(checks) == 1 { // it may share its call with other requests' like it
		c := checks[0]
		c.result, c.err = s.Limiter.Allow(ctx, c.Rule.Policy, c.Subject)
		return
	}
	reqs := make([]shardlimit.Request, len(checks))
	for i, c := range checks {
		reqs[i] = shardlimit.Request{Policy: c.Rule.Policy, Subject: c.Subject}
	}
	for i, o := range s.Limiter.AllowEach(ctx, reqs...) {
		checks[i].result, checks[i].err = o.Result, o.Err
	}
}

// take asks for several hits: where not all fit, those that do are charged, and
// it is over all the same, as the reference counts what it refuses. Of no hits
// it asks what one would be answered.
func (s *service) take(ctx context.Context, c *check) (shardlimit.Result, error) {
	if c.hits == 0 {
		return s.Limiter.Peek(ctx, c.Rule.Policy, c.Subject)
	}
	r, err := s.Limiter.AllowAtMost(ctx, c.Rule.Policy, c.Subject, c.hits)
	fit := c.hits
	if r.Failure != nil { // a failure mode grants no more than the limit holds
		fit = min(fit, int64(c.Rule.Limit.Requests))
	}
	if r.Granted < fit {
		r.Allowed, r.RetryAfter = false, r.ResetAfter
	}
	return r, err
}

// failure returns why there is no decision about c, as a status.
func (r *Rules) failure(c *check) error {
	switch {
	case c.err == nil && (c.result.Failure == nil || !r.HandOver || c.Rule.Shadow):
		return nil
	case c.err == nil:
		return status.Error(codes.Unavailable, c.result.Failure.Error())
	case errors.Is(c.err, context.Canceled), errors.Is(c.err, context.DeadlineExceeded):
		return status.FromContextError(c.err).Err()
	case errors.Is(c.err, shardlimit.ErrClosed):
		return status.Error(codes.Unavailable, c.err.Error())
	default:
		return status.Error(codes.Internal, c.err.Error())
	}
}

// over reports whether the limit had no room for all hits.
func (c *check) over() bool {
	if c.Rule == nil || c.Rule.Unlimited {
		return false
	}
	if c.Rule.Policy == nil { // of no requests
		return true
	}
	return !c.result.Allowed || c.result.Shadowed
}

// code returns the descriptor's own code.
func (c *check) code() ratelimit.RateLimitResponse_Code {
	if c.over() && !c.Rule.Shadow {
		return ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return ratelimit.RateLimitResponse_OK
}

// count tells of all descriptors that have a rule.
func (s *service) count(checks []check, r *Rules) {
	if s.Count == nil {
		return
	}
	for i := range checks {
		if c := &checks[i]; c.Rule != nil {
			over := c.over()
			s.Count(Hit{Descriptor: c.Metric, Hits: c.hits, Over: over, Shadow: over && (c.Rule.Shadow || r.Shadow)})
		}
	}
}

// remaining returns the hits that are left.
func (c *check) remaining() uint32 {
	switch {
	case c.Rule == nil || c.over():
		return 0
	case c.Rule.Unlimited:
		return math.MaxUint32
	default:
		return uint32(min(c.result.Remaining, math.MaxUint32))
	}
}
