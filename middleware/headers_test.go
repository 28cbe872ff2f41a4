package middleware_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

// item is one of a field, by the draft's grammar.
type item struct {
	Name   string
	Params map[string]int64
}

// items reads a field as the draft has it: a List of Strings whose parameters
// are Integers, at least 0.
func items(t *testing.T, h http.Header, field string) []item {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		t.Fatalf("%s: %q: %v", field, h.Values(field), err)
	}
	var read []item
	for _, member := range list {
		sf, ok := member.(httpsfv.Item)
		if !ok {
			t.Fatalf("%s: %q: %v is no Item", field, h.Values(field), member)
		}
		name, ok := sf.Value.(string)
		if !ok {
			t.Fatalf("%s: %q: %v is no String", field, h.Values(field), sf.Value)
		}
		read = append(read, item{name, params(t, sf.Params)})
	}
	return read
}

func params(t *testing.T, sf *httpsfv.Params) map[string]int64 {
	t.Helper()
	read := map[string]int64{}
	for _, name := range sf.Names() {
		value, _ := sf.Get(name)
		n, ok := value.(int64)
		if !ok || n < 0 {
			t.Fatalf("parameter %s: %v is no Integer of at least 0", name, value)
		}
		read[name] = n
	}
	return read
}

func policyOf(t *testing.T, limits ...shardlimit.Limit) *shardlimit.Policy {
	t.Helper()
	p, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: "api", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRateLimitPolicyListsEveryLimit(t *testing.T) {
	for _, tt := range []struct {
		limits []shardlimit.Limit
		want   []item
	}{
		{
			[]shardlimit.Limit{shardlimit.PerSecond(100)},
			[]item{{"api", map[string]int64{"q": 100, "w": 1}}},
		},
		{
			[]shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(200)},
			[]item{{"api", map[string]int64{"q": 100, "w": 1, "shardlimit-burst": 200}}},
		},
		{
			[]shardlimit.Limit{shardlimit.PerSecond(50), shardlimit.PerHour(1000).WithBurst(30), shardlimit.Per(9, 1500*time.Microsecond).WithAlgorithm(shardlimit.FixedWindow)},
			[]item{
				{"api:50/s", map[string]int64{"q": 50, "w": 1}},
				{"api:1000/h burst 30", map[string]int64{"q": 1000, "w": 3600, "shardlimit-burst": 30}},
				{"api:9/1.5ms fixed_window", map[string]int64{"q": 6000, "w": 1}},
			},
		},
		{ // 4 in 2 s, never more than 3 in 1.5 s
			[]shardlimit.Limit{shardlimit.Per(3, 1500*time.Millisecond)},
			[]item{{"api", map[string]int64{"q": 4, "w": 2}}},
		},
		{ // the largest: of 15 digits at most, as an Integer has
			[]shardlimit.Limit{shardlimit.Per(1e9, time.Millisecond)},
			[]item{{"api", map[string]int64{"q": 1e12, "w": 1}}},
		},
		{
			[]shardlimit.Limit{shardlimit.Per(1e9, 366*24*time.Hour-time.Microsecond)},
			[]item{{"api", map[string]int64{"q": 1e9, "w": 366 * 86400}}},
		},
	} {
		h := http.Header{}
		middleware.SetHeaders(h, policyOf(t, tt.limits...), shardlimit.Result{Allowed: true, Limit: tt.limits[0]})
		if diff := cmp.Diff(tt.want, items(t, h, "RateLimit-Policy")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.limits, diff)
		}
	}
}

func TestRateLimitSaysWhatIsLeftOfTheLimitThatBinds(t *testing.T) {
	bucket, window := shardlimit.PerMinute(120), shardlimit.PerMinute(120).WithAlgorithm(shardlimit.SlidingWindow)
	slow := shardlimit.Per(1e9, 366*24*time.Hour).WithBurst(1e9)
	for _, tt := range []struct {
		name  string
		r     shardlimit.Result
		left  int64
		t     int64
		retry string
	}{
		{"r units take r/rate", shardlimit.Result{Allowed: true, Limit: bucket, Remaining: 119, ResetAfter: time.Second / 2}, 119, 60, ""},
		{"rounded up", shardlimit.Result{Allowed: true, Limit: bucket, Remaining: 3, ResetAfter: time.Minute}, 3, 2, ""},
		{"none left: until the next", shardlimit.Result{Allowed: true, Limit: bucket, ResetAfter: time.Minute}, 0, 1, ""},
		{"window: until all is back", shardlimit.Result{Allowed: true, Limit: window, ResetAfter: 61 * time.Second}, 0, 61, ""},
		{"window: not faster than its rate", shardlimit.Result{Allowed: true, Limit: window, Remaining: 100, ResetAfter: 10 * time.Second}, 100, 50, ""},
		{"denied: Retry-After", shardlimit.Result{Limit: bucket, Remaining: 2, RetryAfter: time.Second + 1, ResetAfter: time.Minute}, 2, 2, "2"},
		{"denied for whole seconds", shardlimit.Result{Limit: bucket, RetryAfter: 2 * time.Second}, 0, 2, "2"},
		{"denied for a moment", shardlimit.Result{Limit: bucket, RetryAfter: 1}, 0, 1, "1"},
		{"denied for longest", shardlimit.Result{Limit: bucket, RetryAfter: 1<<63 - 1}, 0, 9223372037, "9223372037"},
		{"more than 64 bits", shardlimit.Result{Allowed: true, Limit: slow, Remaining: 1e9 - 1}, 1e9 - 1, 366 * 86400, ""},
	} {
		h := http.Header{}
		middleware.SetHeaders(h, policyOf(t, tt.r.Limit), tt.r)
		want := []item{{"api", map[string]int64{"r": tt.left, "t": tt.t}}}
		if diff := cmp.Diff(want, items(t, h, "RateLimit")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if got := h.Get("Retry-After"); got != tt.retry {
			t.Errorf("%s: Retry-After %q, want %q", tt.name, got, tt.retry)
		}
	}
}

func TestRateLimitIsNotGuessedWhereAFailureModeDecides(t *testing.T) {
	limit := shardlimit.PerSecond(10)
	h := http.Header{}
	middleware.SetHeaders(h, policyOf(t, limit), shardlimit.Result{
		Limit: limit, RetryAfter: 50 * time.Millisecond, Source: shardlimit.FromFallback, Failure: errors.New("away"),
	})
	want := http.Header{"Ratelimit-Policy": {`"api";q=10;w=1`}, "Retry-After": {"1"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("SetHeaders (-want +got):\n%s", diff)
	}
}

// A Limiter of the caller's own, as in a test, may return a Result that names no
// limit.
func TestResultWithoutALimitHasNoRateLimit(t *testing.T) {
	for _, tt := range []struct {
		result shardlimit.Result
		want   http.Header
	}{
		{shardlimit.Result{Allowed: true, Remaining: 5}, http.Header{"Ratelimit-Policy": {`"api";q=10;w=1`}}},
		{shardlimit.Result{RetryAfter: time.Second}, http.Header{"Ratelimit-Policy": {`"api";q=10;w=1`}, "Retry-After": {"1"}}},
	} {
		h := http.Header{}
		middleware.SetHeaders(h, policyOf(t, shardlimit.PerSecond(10)), tt.result)
		if diff := cmp.Diff(tt.want, h); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.result, diff)
		}
	}
}

func TestFieldsOfSeveralPoliciesAddUp(t *testing.T) {
	h, limit := http.Header{}, shardlimit.PerSecond(10)
	user := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "user", Limits: []shardlimit.Limit{limit}})
	for _, p := range []*shardlimit.Policy{policyOf(t, limit), user} {
		middleware.SetHeaders(h, p, shardlimit.Result{Allowed: true, Limit: limit, Remaining: 9})
	}
	for field, params := range map[string]map[string]int64{"RateLimit-Policy": {"q": 10, "w": 1}, "RateLimit": {"r": 9, "t": 1}} {
		want := []item{{"api", params}, {"user", params}}
		if diff := cmp.Diff(want, items(t, h, field)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
}
