package envoy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	unit "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/internal/closing"
)

// parse returns the set that the text is of.
func parse(t testing.TB, text string, settings domains.Settings) *domains.Set {
	t.Helper()
	set, err := domains.Parse([]domains.File{{Path: "f", Text: []byte(text)}}, settings)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// embedded returns a service that decides in this process by the text.
func embedded(t testing.TB, text string) *service {
	t.Helper()
	limiter, err := shardlimit.NewLocal(shardlimit.Config{})
	closing.Opened(t, limiter, err)
	s := &service{Options: Options{Limiter: limiter}}
	s.load(Rules{Domains: parse(t, text, domains.Default())})
	return s
}

// load makes r what holds now.
func (s *service) load(r Rules) { s.Rules = func() Rules { return r } }

// desc returns a descriptor of entries like "key=value,key=value".
func desc(text string) *descriptor.RateLimitDescriptor {
	d := &descriptor.RateLimitDescriptor{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &descriptor.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// request returns a request of one hit on each descriptor.
func request(domain string, descriptors ...string) *ratelimit.RateLimitRequest {
	r := &ratelimit.RateLimitRequest{Domain: domain}
	for _, d := range descriptors {
		r.Descriptors = append(r.Descriptors, desc(d))
	}
	return r
}

// ask returns the answer to a request.
func ask(t *testing.T, s *service, r *ratelimit.RateLimitRequest) *ratelimit.RateLimitResponse {
	t.Helper()
	response, err := s.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatalf("ShouldRateLimit(%v): %v", r, err)
	}
	return response
}

// codesOf returns the overall code, and those of the descriptors.
func codesOf(r *ratelimit.RateLimitResponse) string {
	word := func(c ratelimit.RateLimitResponse_Code) string {
		if c == ratelimit.RateLimitResponse_OVER_LIMIT {
			return "over"
		}
		return strings.ToLower(c.String())
	}
	words := []string{word(r.OverallCode) + ":"}
	for _, st := range r.Statuses {
		words = append(words, word(st.Code))
	}
	return strings.Join(words, " ")
}

// wantCodes asks as often as there are answers wanted.
func wantCodes(t *testing.T, s *service, r *ratelimit.RateLimitRequest, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, codesOf(ask(t, s, r)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v: (-want +got)\n%s", r, diff)
	}
}

// times returns the word n times, and then last.
func times(n int, word, last string) []string {
	return append(slices.Repeat([]string{word}, n), last)
}

const limited = `
domain: d
descriptors:
  - {key: minute, rate_limit: {name: few, unit: minute, requests_per_unit: 10}}
  - {key: quarter, rate_limit: {unit: minute, unit_multiplier: 15, requests_per_unit: 10}}
  - {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 10}}
`

func TestAStatusSaysWhatIsLeftUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, limited)
		time.Sleep(12*time.Second + 300*time.Millisecond)
		few := &ratelimit.RateLimitResponse_RateLimit{Name: "few", RequestsPerUnit: 10, Unit: ratelimit.RateLimitResponse_RateLimit_MINUTE}
		for _, step := range []struct {
			hits   uint32
			code   ratelimit.RateLimitResponse_Code
			remain uint32
		}{
			{0, ratelimit.RateLimitResponse_OK, 9}, // not set means 1
			{1, ratelimit.RateLimitResponse_OK, 8},
			{5, ratelimit.RateLimitResponse_OK, 3},
			{4, ratelimit.RateLimitResponse_OVER_LIMIT, 0}, // takes what is left, as the reference counts them
			{1, ratelimit.RateLimitResponse_OVER_LIMIT, 0},
			{11, ratelimit.RateLimitResponse_OVER_LIMIT, 0},
		} {
			r := request("d", "minute=a")
			r.HitsAddend = step.hits
			got := ask(t, s, r).Statuses[0]
			want := &ratelimit.RateLimitResponse_DescriptorStatus{
				Code: step.code, CurrentLimit: few, LimitRemaining: step.remain,
			}
			if reset := got.DurationUntilReset.AsDuration(); reset != 48*time.Second {
				t.Errorf("%d hits: reset in %v, want 48s", step.hits, reset)
			}
			want.DurationUntilReset = got.DurationUntilReset
			if got.String() != want.String() {
				t.Errorf("%d hits: got  %v\nwant %v", step.hits, got, want)
			}
		}
		quarter := ask(t, s, request("d", "quarter=a")).Statuses[0]
		if n := quarter.GetCurrentLimit().GetUnitMultiplier().GetValue(); n != 15 {
			t.Errorf("unit_multiplier %d, want 15", n)
		}
		if reset := quarter.DurationUntilReset.AsDuration(); reset != 15*time.Minute-12*time.Second {
			t.Errorf("reset of a quarter of an hour in %v, want 14m48s", reset)
		}
		none := ask(t, s, request("d", "none=a")).Statuses[0]
		if reset := none.DurationUntilReset.AsDuration(); reset != time.Hour-12*time.Second {
			t.Errorf("reset of a limit of nothing in %v, want 59m48s", reset)
		}
		unknown := ask(t, s, request("d", "other=a")).Statuses[0]
		if want := (&ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}); unknown.String() != want.String() {
			t.Errorf("a descriptor without a rule: %v, want %v", unknown, want)
		}
	})
}

func TestADescriptorsOwnHitsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, limited)
		r := request("d", "minute=a", "minute=b", "minute=c", "trial=a")
		r.HitsAddend = 3
		own := func(i int, n uint64) { r.Descriptors[i].HitsAddend = wrapperspb.UInt64(n) }
		own(1, 7)
		own(2, 0) // looks
		own(3, math.MaxUint64)
		left := func() (all []uint32) {
			for _, st := range ask(t, s, r).Statuses {
				all = append(all, st.LimitRemaining)
			}
			return all
		}
		if diff := cmp.Diff([]uint32{7, 3, 10, 0}, left()); diff != "" {
			t.Errorf("remaining: (-want +got)\n%s", diff)
		}
		wantCodes(t, s, r, "over: ok over ok ok", "over: ok over ok ok", "over: over over ok ok")
		if diff := cmp.Diff([]uint32{0, 0, 10, 0}, left()); diff != "" {
			t.Errorf("remaining: (-want +got)\n%s", diff)
		}
		full := request("d", "minute=a")
		full.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
		wantCodes(t, s, full, "over: over")
	})
}

func TestALimitOfTheRequestHoldsInPlaceOfTheRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, limited)
		bring := func(text string, requests uint32, unit unit.RateLimitUnit) *ratelimit.RateLimitRequest {
			r := request("d", text)
			r.Descriptors[0].Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: unit}
			return r
		}
		wantCodes(t, s, request("d", "minute=a"), times(10, "ok: ok", "over: over")...)
		wantCodes(t, s, bring("minute=a", 12, unit.RateLimitUnit_MINUTE), "ok: ok", "ok: ok", "over: over") // 10 are counted
		wantCodes(t, s, bring("minute=a", 1, unit.RateLimitUnit_HOUR), "ok: ok", "over: over")
		wantCodes(t, s, bring("trial=a", 1, unit.RateLimitUnit_MINUTE), "ok: ok", "over: over") // no shadow
		wantCodes(t, s, bring("new=a", 1, unit.RateLimitUnit_YEAR), "ok: ok", "over: over")
		wantCodes(t, s, bring("none=a", 0, unit.RateLimitUnit_DAY), "over: over")
		got := ask(t, s, bring("minute=z", 12, unit.RateLimitUnit_MONTH)).Statuses[0].CurrentLimit
		want := &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: 12, Unit: ratelimit.RateLimitResponse_RateLimit_MONTH}
		if got.String() != want.String() {
			t.Errorf("current_limit %v, want %v", got, want)
		}
	})
}

func TestUnknownDomainsAndDescriptorsPass(t *testing.T) {
	s := embedded(t, limited)
	wantCodes(t, s, request("e", "minute=a", "other=b"), "ok: ok ok")
	wantCodes(t, s, request("d", "other=b", "minute=a,other=b"), "ok: ok ok")
}

func TestRequestsAtFaultAreRefusedAndChargeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, limited)
		with := func(change func(d *descriptor.RateLimitDescriptor)) *ratelimit.RateLimitRequest {
			r := request("d", "minute=a", "minute=b")
			change(r.Descriptors[1])
			return r
		}
		override := func(requests uint32, unit unit.RateLimitUnit) *ratelimit.RateLimitRequest {
			return with(func(d *descriptor.RateLimitDescriptor) {
				d.Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: unit}
			})
		}
		for _, tt := range []struct {
			request *ratelimit.RateLimitRequest
			want    string
		}{
			{request("", "minute=a"), "domain: must not be empty"},
			{request("d"), "descriptors: must have at least one"},
			{with(func(d *descriptor.RateLimitDescriptor) { d.Entries = nil }), "descriptors[1].entries: must have at least one"},
			{with(func(d *descriptor.RateLimitDescriptor) { d.IsNegativeHits = true }), "descriptors[1].is_negative_hits: is not taken over: hits can't be given back"},
			{override(1, unit.RateLimitUnit_UNKNOWN), "descriptors[1].limit: 0s must be 1ms to 366 days"},
			{override(math.MaxUint32, unit.RateLimitUnit_DAY), "descriptors[1].limit: 4294967295 must be 1 to 1000000000"},
		} {
			_, err := s.ShouldRateLimit(t.Context(), tt.request)
			if st := status.Convert(err); st.Code() != codes.InvalidArgument || st.Message() != tt.want {
				t.Errorf("%v: %v %q, want InvalidArgument %q", tt.request, st.Code(), st.Message(), tt.want)
			}
		}
		if left := ask(t, s, request("d", "minute=a")).Statuses[0].LimitRemaining; left != 9 {
			t.Errorf("%d left after one request, want 9", left)
		}
	})
}

func TestGlobalShadowPassesAndLeavesTheStatuses(t *testing.T) {
	s := embedded(t, limited)
	s.load(Rules{Domains: s.Rules().Domains, Shadow: true})
	wantCodes(t, s, request("d", "none=a", "minute=a"), "ok: over ok")
}

func TestHeadersAreAboutTheDescriptorThatMattersMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, limited)
		headers := func(h Headers, hits uint32, descriptors ...string) (all []string) {
			s.load(Rules{Domains: s.Rules().Domains, Headers: h})
			r := request("d", descriptors...)
			r.HitsAddend = hits
			for _, f := range ask(t, s, r).ResponseHeadersToAdd {
				all = append(all, f.Key+": "+f.Value)
			}
			return all
		}
		policy := `RateLimit-Policy: "envoy.d.minute";q=10;w=60`
		for _, step := range []struct {
			got, want []string
		}{
			{headers(NoHeaders, 1, "minute=a"), nil},
			{headers(ReferenceHeaders, 2, "quarter=a", "minute=a"), []string{"RateLimit-Limit: 10", "RateLimit-Remaining: 7", "RateLimit-Reset: 60"}},
			{headers(DraftHeaders, 1, "quarter=a", "minute=a"), []string{policy, `RateLimit: "envoy.d.minute";r=6;t=60`}},
			{headers(DraftHeaders, 7, "minute=a", "other=a"), []string{policy, `RateLimit: "envoy.d.minute";r=0;t=60`, "Retry-After: 60"}},
			{headers(ReferenceHeaders, 1, "minute=a", "quarter=b"), []string{"RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 60"}},
			{headers(ReferenceHeaders, 1, "none=a"), []string{"RateLimit-Limit: 0", "RateLimit-Remaining: 0", "RateLimit-Reset: 3600"}},
			{headers(DraftHeaders, 1, "none=a"), nil},
			{headers(DraftHeaders, 1, "other=a"), nil},
		} {
			if diff := cmp.Diff(step.want, step.got); diff != "" {
				t.Errorf("headers: (-want +got)\n%s", diff)
			}
		}
	})
}

func TestAReloadedConfigurationCountsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, `{domain: d, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 3}}]}`)
		wantCodes(t, s, request("d", "k=a"), times(3, "ok: ok", "over: over")...)
		reload := func(text string) {
			s.load(Rules{Domains: parse(t, text, domains.Default())})
		}
		reload(`{domain: d, descriptors: [{key: j}, {key: k, rate_limit: {name: more, unit: day, requests_per_unit: 5}}]}`)
		wantCodes(t, s, request("d", "k=a"), "ok: ok", "ok: ok", "over: over")
		reload(`{domain: d, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4}}]}`)
		wantCodes(t, s, request("d", "k=a"), "over: over")
	})
}
