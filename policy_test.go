package shardlimit_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
)

// fields returns the fields of the ConfigErrors that err joins, sorted.
func fields(t *testing.T, err error) []string {
	t.Helper()
	var found []string
	var walk func(error)
	walk = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range joined.Unwrap() {
				walk(err)
			}
			return
		}
		c, ok := errors.AsType[*shardlimit.ConfigError](err)
		if !ok {
			t.Errorf("%v is no ConfigError", err)
			return
		}
		found = append(found, c.Field)
	}
	if err != nil {
		walk(err)
	}
	slices.Sort(found)
	return found
}

func TestFaultsOfALimitAreNamed(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name  string
		limit shardlimit.Limit
		want  []string
	}{
		{"the zero limit", shardlimit.Limit{}, []string{"Limits[0].Period", "Limits[0].Rate"}},
		{"rate 0", shardlimit.PerSecond(0), []string{"Limits[0].Rate"}},
		{"rate negative", shardlimit.PerSecond(-1), []string{"Limits[0].Rate"}},
		{"rate over 1e9", shardlimit.PerSecond(1e9 + 1), []string{"Limits[0].Rate"}},
		{"period 0", shardlimit.Per(1, 0), []string{"Limits[0].Period"}},
		{"period negative", shardlimit.Per(1, -time.Second), []string{"Limits[0].Period"}},
		{"period under 1 ms", shardlimit.Per(1, 999*time.Microsecond), []string{"Limits[0].Period"}},
		{"period over 366 days", shardlimit.Per(1, 366*day+time.Microsecond), []string{"Limits[0].Period"}},
		{"period not in whole µs", shardlimit.Per(1, time.Second+time.Nanosecond), []string{"Limits[0].Period"}},
		{"burst negative", shardlimit.PerSecond(1).WithBurst(-1), []string{"Limits[0].Burst"}},
		{"burst over 1e9", shardlimit.PerSecond(1000).WithBurst(1e9 + 1), []string{"Limits[0].Burst"}},
		{"burst of 10 years", shardlimit.PerDay(1).WithBurst(3653), nil},
		{"burst of more", shardlimit.PerDay(1).WithBurst(3654), []string{"Limits[0].Burst"}},
		{"burst of a window", shardlimit.PerDay(9).WithAlgorithm(shardlimit.SlidingWindow).WithBurst(9), []string{"Limits[0].Burst"}},
		{"sliding_log of 10,000", shardlimit.PerDay(10_000).WithAlgorithm(shardlimit.SlidingLog), nil},
		{"sliding_log over 10,000", shardlimit.PerDay(10_001).WithAlgorithm(shardlimit.SlidingLog), []string{"Limits[0].Rate"}},
		{"gcra of 62.5 µs", shardlimit.PerSecond(16_000).WithAlgorithm(shardlimit.GCRA), nil},
		{"gcra finer than 62.5 µs", shardlimit.PerSecond(16_001).WithAlgorithm(shardlimit.GCRA), []string{"Limits[0].Rate"}},
		{"unknown algorithm", shardlimit.PerSecond(1).WithAlgorithm(9), []string{"Limits[0].Algorithm"}},
		{"the extremes", shardlimit.Limit{Rate: 1e9, Period: time.Millisecond, Burst: 1e9}, nil},
		{
			"all at once",
			shardlimit.Limit{Algorithm: 9, Rate: -1, Period: 1, Burst: -1},
			[]string{"Limits[0].Algorithm", "Limits[0].Burst", "Limits[0].Period", "Limits[0].Period", "Limits[0].Rate"},
		},
	} {
		_, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{tt.limit}})
		if diff := cmp.Diff(tt.want, fields(t, err)); diff != "" {
			t.Errorf("%s: faults of %v (-want +got):\n%s\n%v", tt.name, tt.limit, diff, err)
		}
	}
}

func TestFaultsOfAPolicyAreNamed(t *testing.T) {
	ok := shardlimit.PerSecond(10)
	for _, tt := range []struct {
		name   string
		config shardlimit.PolicyConfig
		want   []string
	}{
		{"none", shardlimit.PolicyConfig{Name: "a.B_9-", Limits: []shardlimit.Limit{ok}}, nil},
		{"no name", shardlimit.PolicyConfig{Limits: []shardlimit.Limit{ok}}, []string{"Name"}},
		{"a space in the name", shardlimit.PolicyConfig{Name: "a b", Limits: []shardlimit.Limit{ok}}, []string{"Name"}},
		{"a line break behind the name", shardlimit.PolicyConfig{Name: "a\n", Limits: []shardlimit.Limit{ok}}, []string{"Name"}},
		{"a colon in the name", shardlimit.PolicyConfig{Name: "a:b", Limits: []shardlimit.Limit{ok}}, []string{"Name"}},
		{"name of 65", shardlimit.PolicyConfig{Name: strings.Repeat("a", 65), Limits: []shardlimit.Limit{ok}}, []string{"Name"}},
		{"no limits", shardlimit.PolicyConfig{Name: "api"}, []string{"Limits"}},
		{"nine limits", shardlimit.PolicyConfig{Name: "api", Limits: distinct(9)}, []string{"Limits"}},
		{"eight limits", shardlimit.PolicyConfig{Name: "api", Limits: distinct(8)}, nil},
		{"timeout negative", shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{ok}, Timeout: -1}, []string{"Timeout"}},
		{"two equal limits", shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{ok, ok}}, []string{"Limits[1]"}},
		{
			"two limits that decide alike",
			shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{ok, ok.WithBurst(10)}},
			[]string{"Limits[1]"},
		},
		{"FailLocal of 0", shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{ok}, OnFailure: shardlimit.FailLocal(0)}, []string{"OnFailure"}},
		{"two bursts", shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{ok, ok.WithBurst(20)}}, nil},
		{
			"sliding_log beside another",
			shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{ok, ok.WithAlgorithm(shardlimit.SlidingLog)}},
			[]string{"Limits[1].Algorithm"},
		},
		{
			"all at once",
			shardlimit.PolicyConfig{
				Name: "a b", Limits: []shardlimit.Limit{ok, {}, ok}, Timeout: -1, OnFailure: shardlimit.FailLocal(2), Parts: 65,
			},
			[]string{"Limits[1].Period", "Limits[1].Rate", "Limits[2]", "Name", "OnFailure", "Parts", "Timeout"},
		},
	} {
		p, err := shardlimit.NewPolicy(tt.config)
		if diff := cmp.Diff(tt.want, fields(t, err)); diff != "" || (p == nil) != (err != nil) {
			t.Errorf("%s: faults (-want +got):\n%s\n%v", tt.name, diff, err)
		}
	}
}

func distinct(n int64) []shardlimit.Limit {
	var limits []shardlimit.Limit
	for i := range n {
		limits = append(limits, shardlimit.PerSecond(i+1))
	}
	return limits
}

func TestMessagesSayWhatIsWrong(t *testing.T) {
	_, zero := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: "a b", Limits: []shardlimit.Limit{shardlimit.PerSecond(0)}})
	for _, tt := range []struct {
		err  error
		want string
	}{
		{
			zero,
			"shardlimit: Name: \"a b\": must match ^[A-Za-z0-9_.-]{1,64}$\n" +
				"shardlimit: Limits[0].Rate: 0: must be 1 to 1000000000",
		},
		{&shardlimit.CostError{Cost: 0}, "shardlimit: cost 0: must be at least 1"},
		{&shardlimit.CostError{Cost: 9, Limit: shardlimit.PerSecond(5)}, "shardlimit: cost 9: more than 5/s can ever hold"},
		{
			&shardlimit.CostError{Cost: 9, Limit: shardlimit.PerSecond(32), Parts: 4},
			"shardlimit: cost 9: more than one of 4 parts of 32/s can ever hold",
		},
		{
			&shardlimit.RequestError{Index: 2, Err: &shardlimit.CostError{Cost: 0}},
			"shardlimit: request 2: cost 0: must be at least 1",
		},
		{&shardlimit.UnavailableError{Err: errors.New("no nodes")}, "shardlimit: shard unavailable: no nodes"},
		{
			&shardlimit.UnavailableError{Shard: "10.0.0.1:6379", Unknown: true, Err: errors.New("EOF")},
			"shardlimit: shard 10.0.0.1:6379 unavailable, outcome unknown: EOF",
		},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%T reads %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestFaultsOfAConfigAreNamed(t *testing.T) {
	bad := shardlimit.Config{Prefix: "a{b", Timeout: -1}
	ring := closing.AtEnd(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}))
	_, local := shardlimit.NewLocal(bad)
	_, unknown := shardlimit.New(ring, bad)
	_, missing := shardlimit.New(nil, shardlimit.Config{})
	_, open := shardlimit.Open(nil, bad)
	_, nowhere := shardlimit.Open(&redis.ClusterOptions{}, shardlimit.Config{})
	_, long := shardlimit.NewLocal(shardlimit.Config{Prefix: strings.Repeat("a", 65)})
	_, batch := shardlimit.NewLocal(shardlimit.Config{Batch: shardlimit.BatchConfig{Calls: -1, InFlight: -1, Queue: -1}})
	_, hot := shardlimit.NewLocal(shardlimit.Config{HotKeys: shardlimit.HotKeysConfig{Entries: -1, DenialBytes: -1, HotRate: 19, Workers: -1}})
	_, hotter := shardlimit.NewLocal(shardlimit.Config{HotKeys: shardlimit.HotKeysConfig{DenialBytes: math.MaxInt64, HotRate: math.NaN()}})
	for _, tt := range []struct {
		name string
		err  error
		want []string
	}{
		{"NewLocal", local, []string{"Prefix", "Timeout"}},
		{"New on a Ring", unknown, []string{"Prefix", "Timeout", "rdb"}},
		{"New on nothing", missing, []string{"rdb"}},
		{"Open of nothing", open, []string{"Addrs", "Prefix", "Timeout"}},
		{"Open without addresses", nowhere, []string{"Addrs"}},
		{"a prefix of 65", long, []string{"Prefix"}},
		{"a negative batch", batch, []string{"Batch.Calls", "Batch.InFlight", "Batch.Queue"}},
		{"negative bounds of hot keys", hot, []string{"HotKeys.DenialBytes", "HotKeys.Entries", "HotKeys.HotRate", "HotKeys.Workers"}},
		{"bounds of hot keys that are none", hotter, []string{"HotKeys.DenialBytes", "HotKeys.HotRate"}},
	} {
		if diff := cmp.Diff(tt.want, fields(t, tt.err)); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPolicyIsImmutable(t *testing.T) {
	limits := []shardlimit.Limit{shardlimit.PerSecond(10), shardlimit.PerDay(1000)}
	p := policy(t, limits...)
	want := slices.Clone(limits)
	limits[0] = shardlimit.Limit{}
	p.Limits()[1] = shardlimit.Limit{}
	p.Config().Limits[1] = shardlimit.Limit{}
	for what, got := range map[string][]shardlimit.Limit{"Limits": p.Limits(), "Config": p.Config().Limits} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestWithLimitsKeepsAllElse(t *testing.T) {
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(10)}, OnFailure: shardlimit.FailClosed(),
	})
	plan, err := p.WithLimits(shardlimit.PerSecond(100))
	if err != nil || plan.Name() != "api" || !slices.Equal(plan.Limits(), []shardlimit.Limit{shardlimit.PerSecond(100)}) {
		t.Fatalf("WithLimits = %v %v, %v", plan.Name(), plan.Limits(), err)
	}
	if r := allow(t, failing(errNeverRan), plan, "a"); r.Allowed {
		t.Errorf("Allow = %+v, want it denied as the policy fails closed", r)
	}
	if _, err := p.WithLimits(); !slices.Equal(fields(t, err), []string{"Limits"}) {
		t.Errorf("WithLimits of none: error %v", err)
	}
	if _, err := new(shardlimit.Policy).WithLimits(shardlimit.PerSecond(1)); !errors.Is(err, shardlimit.ErrNoPolicy) {
		t.Errorf("WithLimits of the zero Policy: error %v, want ErrNoPolicy", err)
	}
}

func TestMustPolicyPanicsOnAFault(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !slices.Equal(fields(t, err), []string{"Limits", "Name"}) {
			t.Errorf("MustPolicy panicked with %v, want NewPolicy's error", err)
		}
	}()
	shardlimit.MustPolicy(shardlimit.PolicyConfig{})
}
