package envoy

import (
	"math"
	"testing"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	unit "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// FuzzRequests: whatever the bytes, the answer has a status for each descriptor,
// or says that the request is at fault. Nothing panics.
func FuzzRequests(f *testing.F) {
	s := embedded(f, limited)
	s.Count = NewHits().Count
	bring := request("d", "minute=a", "new=b")
	for i, u := range []unit.RateLimitUnit{unit.RateLimitUnit_UNKNOWN, unit.RateLimitUnit_MONTH} {
		bring.Descriptors[i].Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{Unit: u}
	}
	huge := request("d", "trial=a", "quarter=", "none=a", "=")
	huge.HitsAddend = math.MaxUint32
	for _, r := range []*ratelimit.RateLimitRequest{bring, huge, {}, request("d", "minute=a", "minute=a")} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r ratelimit.RateLimitRequest
		if proto.Unmarshal(b, &r) != nil {
			return
		}
		answer, err := s.ShouldRateLimit(t.Context(), &r)
		switch {
		case err != nil && status.Code(err) != codes.InvalidArgument:
			t.Errorf("%v: %v", &r, err)
		case err == nil && len(answer.Statuses) != len(r.Descriptors):
			t.Errorf("%v: %d statuses of %d descriptors", &r, len(answer.Statuses), len(r.Descriptors))
		}
	})
}
