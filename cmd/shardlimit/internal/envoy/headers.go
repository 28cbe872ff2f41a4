package envoy

import (
	"net/http"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit/middleware"
)

// Headers says which fields Envoy is to add to its answers. The zero Headers is
// none.
type Headers uint8

// The sets of fields.
const (
	NoHeaders Headers = iota
	// DraftHeaders are RateLimit-Policy and RateLimit of the IETF's draft, and
	// Retry-After where the request is over.
	DraftHeaders
	// ReferenceHeaders are RateLimit-Limit, RateLimit-Remaining and
	// RateLimit-Reset, as the reference adds them where it is told to.
	ReferenceHeaders
)

// of returns the fields about the descriptor that matters most.
func (h Headers) of(c *check, st *ratelimit.RateLimitResponse_DescriptorStatus, overall ratelimit.RateLimitResponse_Code) []*core.HeaderValue {
	switch h {
	case DraftHeaders:
		return draftHeaders(c, overall)
	case ReferenceHeaders:
		return []*core.HeaderValue{
			{Key: "RateLimit-Limit", Value: decimal(uint64(st.GetCurrentLimit().GetRequestsPerUnit()))},
			{Key: "RateLimit-Remaining", Value: decimal(uint64(st.GetLimitRemaining()))},
			{Key: "RateLimit-Reset", Value: decimal(uint64(st.GetDurationUntilReset().GetSeconds()))},
		}
	default:
		return nil
	}
}

// draftHeaders returns the draft's fields. Of a limit of no requests they have
// nothing to say.
func draftHeaders(c *check, overall ratelimit.RateLimitResponse_Code) []*core.HeaderValue {
	if c.Rule.Policy == nil {
		return nil
	}
	set := http.Header{}
	middleware.SetHeaders(set, c.Rule.Policy, c.result)
	if overall == ratelimit.RateLimitResponse_OK {
		set.Del("Retry-After")
	}
	var fields []*core.HeaderValue
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
		if v := set.Get(name); v != "" {
			fields = append(fields, &core.HeaderValue{Key: name, Value: v})
		}
	}
	return fields
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
