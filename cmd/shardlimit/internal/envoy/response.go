package envoy

import (
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// response returns what the checks come to.
func (r *Rules) response(checks []check) *ratelimit.RateLimitResponse {
	now := time.Now()
	answer := &ratelimit.RateLimitResponse{
		OverallCode: r.overall(checks),
		Statuses:    make([]*ratelimit.RateLimitResponse_DescriptorStatus, len(checks)),
	}
	for i := range checks {
		answer.Statuses[i] = checks[i].status(now)
	}
	if i, ok := binding(checks); ok {
		answer.ResponseHeadersToAdd = r.Headers.of(&checks[i], answer.Statuses[i], answer.OverallCode)
	}
	return answer
}

// overall returns the code of the request: over if one of its descriptors is.
// Those in quota mode count as one, which is over when all of them are.
func (r *Rules) overall(checks []check) ratelimit.RateLimitResponse_Code {
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
	if (over || quotas > 0 && quotas == quotasOver) && !r.Shadow {
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
