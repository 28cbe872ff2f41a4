package envoy

import (
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// response returns what the checks come to.
func (s *service) response(checks []check) *ratelimit.RateLimitResponse {
	now := time.Now()
	r := &ratelimit.RateLimitResponse{
		OverallCode: s.overall(checks),
		Statuses:    make([]*ratelimit.RateLimitResponse_DescriptorStatus, len(checks)),
	}
	for i := range checks {
		r.Statuses[i] = checks[i].status(now)
	}
	if i, ok := binding(checks); ok {
		r.ResponseHeadersToAdd = s.Headers.of(&checks[i], r.Statuses[i], r.OverallCode)
	}
	return r
}

// overall returns the code of the request: over if one of its descriptors is.
// Those in quota mode count as one, which is over when all of them are.
func (s *service) overall(checks []check) ratelimit.RateLimitResponse_Code {
	over, quotas, quotasOver := false, 0, 0
	for i := range checks {
		c := &checks[i]
		full := c.code() == ratelimit.RateLimitResponse_OVER_LIMIT
		switch {
		case c.Rule != nil && c.Rule.Quota && !c.Rule.Unlimited:
			quotas++
			if full {
				quotasOver++
			}
		case full:
			over = true
		}
	}
	if (over || quotas > 0 && quotas == quotasOver) && !s.Shadow {
		return ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return ratelimit.RateLimitResponse_OK
}

// binding returns the check that matters most to the client: the last that is
// over, or else the one with the least left.
func binding(checks []check) (at int, ok bool) {
	at = -1
	over := false
	for i := range checks {
		c := &checks[i]
		full := c.code() == ratelimit.RateLimitResponse_OVER_LIMIT
		switch {
		case c.Rule == nil || c.Rule.Unlimited:
		case full && !c.Rule.Quota:
			at, over = i, true
		case !over && (at < 0 || c.remaining() < checks[at].remaining()):
			at = i
		}
	}
	return at, at >= 0
}

// status returns the status of a descriptor.
func (c *check) status(now time.Time) *ratelimit.RateLimitResponse_DescriptorStatus {
	st := &ratelimit.RateLimitResponse_DescriptorStatus{Code: c.code(), LimitRemaining: c.remaining()}
	if c.Rule == nil || c.Rule.Unlimited {
		return st
	}
	l := c.Rule.Limit
	st.CurrentLimit = &ratelimit.RateLimitResponse_RateLimit{
		Name: c.Rule.Name, RequestsPerUnit: l.Requests, Unit: l.Unit,
	}
	if l.Multiplier > 1 {
		st.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(l.Multiplier)
	}
	st.DurationUntilReset = durationpb.New(c.untilReset(now))
	return st
}

// untilReset returns in how many whole seconds nothing is used any more. Where
// the decision doesn't say, it is the end of the window by this machine's clock.
func (c *check) untilReset(now time.Time) time.Duration {
	if d := c.result.ResetAfter; d > 0 {
		return (d + time.Second - 1).Truncate(time.Second)
	}
	period := int64(c.Rule.Limit.Period() / time.Second)
	return time.Duration(period-now.Unix()%period) * time.Second
}
