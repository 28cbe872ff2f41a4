package envoy_test

import (
	"math"
	"strings"
	"testing"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	unit "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// hostile is a client of a server that decides by config on a cluster.
type hostile struct {
	ratelimit.RateLimitServiceClient
	conn *grpc.ClientConn
	t    *testing.T
}

// attack returns a client of a server that counts hits as the daemon does.
func attack(t *testing.T) *hostile {
	cluster := redistest.Start(t, redistest.Options{})
	l, err := shardlimit.Open(cluster.ClientOptions(), shardlimit.Config{Timeout: 30 * time.Second})
	limiter := closing.Opened(t, l, err)
	settings := domains.Default()
	settings.Leases = shardlimit.LeaseOff // limit_remaining is exact then
	_, conn := serve(t, envoy.Options{Limiter: limiter, Rules: rules(t, settings, true), Count: envoy.NewHits().Count})
	return &hostile{ratelimit.NewRateLimitServiceClient(conn), conn, t}
}

// left returns how many of client c's hits are left, one of which it takes.
func (h *hostile) left() uint32 {
	h.t.Helper()
	r, err := h.ShouldRateLimit(h.t.Context(), of(desc("client", "c")))
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Statuses[0].LimitRemaining
}

// of returns a request to the configured domain.
func of(all ...*descriptor.RateLimitDescriptor) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: all}
}

// bringing returns a descriptor with a limit of its own.
func bringing(requests uint32, of unit.RateLimitUnit, multiplier uint32) *descriptor.RateLimitDescriptor {
	d := desc("client", "o")
	d.Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: requests, Unit: of, UnitMultiplier: wrapperspb.UInt32(multiplier),
	}
	return d
}

// TestHostileRequestsAreRefusedAndChargeNothing: each begins with a descriptor
// that could be charged.
func TestHostileRequestsAreRefusedAndChargeNothing(t *testing.T) {
	h := attack(t)
	before := h.left()
	fine := desc("client", "c")
	negative := desc("client", "c")
	negative.IsNegativeHits = true
	many := make([]*descriptor.RateLimitDescriptor, 1001)
	for i := range many {
		many[i] = fine
	}
	nowhere := of(fine)
	nowhere.Domain = ""
	for _, tt := range []struct {
		request *ratelimit.RateLimitRequest
		want    string
	}{
		{&ratelimit.RateLimitRequest{}, "domain: must not be empty"},
		{nowhere, "domain: must not be empty"},
		{of(), "descriptors: must have at least one"},
		{of(many...), "descriptors: 1001 must be at most 1000"},
		{of(fine, &descriptor.RateLimitDescriptor{}), "descriptors[1].entries: must have at least one"},
		{of(fine, desc("", "")), "descriptors[1].entries[0].key: must not be empty"},
		{of(fine, desc("path", "/pay", "", "c")), "descriptors[1].entries[1].key: must not be empty"},
		{of(fine, negative), "descriptors[1].is_negative_hits: is not taken over: hits can't be given back"},
		{of(fine, bringing(0, unit.RateLimitUnit_UNKNOWN, 0)), "descriptors[1].limit: 0s must be 1ms to 366 days"},
		{of(fine, bringing(1, unit.RateLimitUnit_UNKNOWN, 0)), "descriptors[1].limit: 0s must be 1ms to 366 days"},
		{of(fine, bringing(0, 99, 1)), "descriptors[1].limit: 0s must be 1ms to 366 days"},
		{of(fine, bringing(1, -1, 1)), "descriptors[1].limit: 0s must be 1ms to 366 days"},
		{of(fine, bringing(0, unit.RateLimitUnit_YEAR, math.MaxUint32)), "descriptors[1].limit: 2562047h47m16s must be 1ms to 366 days"},
		{of(fine, bringing(1, unit.RateLimitUnit_DAY, 367)), "descriptors[1].limit: 8808h0m0s must be 1ms to 366 days"},
		{of(fine, bringing(math.MaxUint32, unit.RateLimitUnit_DAY, 1)), "descriptors[1].limit: 4294967295 must be 1 to 1000000000"},
	} {
		_, err := h.ShouldRateLimit(t.Context(), tt.request)
		if st := status.Convert(err); st.Code() != codes.InvalidArgument || st.Message() != tt.want {
			t.Errorf("%.200v: %v %q, want InvalidArgument %q", tt.request, st.Code(), st.Message(), tt.want)
		}
	}
	if after := h.left(); after != before-1 {
		t.Errorf("%d left after %d, want one less", after, before)
	}
}

// send sends bytes in place of a request.
func (h *hostile) send(text string) error {
	codec := bytesCodec{encoding.GetCodecV2("proto")}
	return h.conn.Invoke(h.t.Context(), ratelimit.RateLimitService_ShouldRateLimit_FullMethodName,
		[]byte(text), &ratelimit.RateLimitResponse{}, grpc.ForceCodecV2(codec))
}

// bytesCodec sends bytes as they are, also what is no message.
type bytesCodec struct{ encoding.CodecV2 }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// TestHostileBytesAreRefusedAndChargeNothing: gRPC itself refuses what is no
// request.
func TestHostileBytesAreRefusedAndChargeNothing(t *testing.T) {
	h := attack(t)
	before := h.left()
	marshal := func(r *ratelimit.RateLimitRequest) []byte {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := string(marshal(of(desc("client", "c"), desc("client", "other"))))
	for _, tt := range []struct {
		name, bytes string
		want        codes.Code
	}{
		{"a value that isn't UTF-8", strings.Replace(good, "other", "oth\xffr", 1), codes.Internal},
		{"a key that isn't UTF-8", strings.Replace(good, "client", "clie\xc0t", 1), codes.Internal},
		{"cut short", good[:len(good)-1], codes.Internal},
		{"no message", "\xff\xff\xff\xff", codes.Internal},
		{"nothing", "", codes.InvalidArgument},
		{"too large", string(marshal(of(desc("client", "c"), desc("client", strings.Repeat("x", 1<<20))))), codes.ResourceExhausted},
	} {
		err := h.send(tt.bytes)
		if got := status.Code(err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if after := h.left(); after != before-1 {
		t.Errorf("%d left after %d, want one less", after, before)
	}
}

// TestManyOfTheSameChargeTheirLimit: a thousand descriptors for one limit of 50,
// and hits beyond any limit.
func TestManyOfTheSameChargeTheirLimit(t *testing.T) {
	h := attack(t)
	all := make([]*descriptor.RateLimitDescriptor, 1000)
	for i := range all {
		all[i] = desc("client", "c")
	}
	for _, tt := range []struct {
		client    string
		hits      uint32
		own       *wrapperspb.UInt64Value
		ok        int
		remaining uint32
	}{
		{client: "single", ok: 50},
		{client: "fives", hits: 5, ok: 10},
		{client: "all", hits: math.MaxUint32},
		{client: "beyond", own: wrapperspb.UInt64(math.MaxUint64)},
		{client: "looks", hits: 7, own: wrapperspb.UInt64(0), ok: 1000, remaining: 49}, // one is taken below
	} {
		for _, d := range all {
			d.Entries[0].Value, d.HitsAddend = tt.client, tt.own
		}
		r := of(all...)
		r.HitsAddend = tt.hits
		answer, err := h.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Errorf("%s: %v", tt.client, err)
			continue
		}
		ok := 0
		for _, st := range answer.Statuses {
			if st.Code == ratelimit.RateLimitResponse_OK {
				ok++
			}
		}
		after, err := h.ShouldRateLimit(t.Context(), of(desc("client", tt.client)))
		if err != nil {
			t.Fatal(err)
		}
		if left := after.Statuses[0].LimitRemaining; ok != tt.ok || left != tt.remaining {
			t.Errorf("%s: %d ok and %d left, want %d and %d", tt.client, ok, left, tt.ok, tt.remaining)
		}
	}
}
