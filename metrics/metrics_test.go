package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/metrics"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// want compares the metrics that it names with this text.
func want(t *testing.T, m *metrics.Metrics, text string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(m, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func local(t *testing.T, o shardlimit.Observer) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.NewLocal(shardlimit.Config{Observer: o})
	return closing.Opened(t, l, err)
}

func policy(name string, limit shardlimit.Limit) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: name, Limits: []shardlimit.Limit{limit}})
}

func allowN(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, subject string, cost int64) shardlimit.Result {
	t.Helper()
	r, err := l.AllowN(t.Context(), p, subject, cost)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDecisionsAndUnitsAreCounted(t *testing.T) {
	m := metrics.New(metrics.Config{})
	l := local(t, m.Observer())
	api, jobs := policy("api", shardlimit.PerHour(10)), policy("jobs", shardlimit.PerHour(10))
	allowN(t, l, api, "a", 7)
	allowN(t, l, api, "b", 2)
	allowN(t, l, api, "a", 4)
	if _, err := l.AllowAtMost(t.Context(), jobs, "a", 100); err != nil {
		t.Fatal(err)
	}
	dark := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "dark", Limits: []shardlimit.Limit{shardlimit.PerHour(1)}, Shadow: true,
	})
	allowN(t, l, dark, "a", 1)
	allowN(t, l, dark, "a", 1)
	want(t, m, `
# HELP shardlimit_decisions_total Decisions, by what made them.
# TYPE shardlimit_decisions_total counter
shardlimit_decisions_total{outcome="allowed",policy="api",source="memory"} 2
shardlimit_decisions_total{outcome="allowed",policy="dark",source="memory"} 1
shardlimit_decisions_total{outcome="allowed",policy="jobs",source="memory"} 1
shardlimit_decisions_total{outcome="shadowed",policy="dark",source="memory"} 1
shardlimit_decisions_total{outcome="denied",policy="api",source="memory"} 1
# HELP shardlimit_granted_units_total Units granted, by what granted them; those of the fallback were charged nowhere.
# TYPE shardlimit_granted_units_total counter
shardlimit_granted_units_total{policy="api",source="memory"} 9
shardlimit_granted_units_total{policy="dark",source="memory"} 2
shardlimit_granted_units_total{policy="jobs",source="memory"} 10
`, "shardlimit_decisions_total", "shardlimit_granted_units_total")
	if n := testutil.CollectAndCount(m, "shardlimit_call_duration_seconds"); n != 0 {
		t.Errorf("%d series of calls to Redis, want none: there is none", n)
	}
}

func TestFailuresAreCountedByClass(t *testing.T) {
	down := func(unknown bool, cause error) shardlimit.Decision {
		return shardlimit.Decision{Policy: "api", Cost: 3, Result: shardlimit.Result{
			Allowed: true, Granted: 3, Source: shardlimit.FromFallback,
			Failure: &shardlimit.UnavailableError{Unknown: unknown, Err: cause},
		}}
	}
	none := func(err error) shardlimit.Decision { return shardlimit.Decision{Policy: "api", Cost: 3, Err: err} }
	m := metrics.New(metrics.Config{})
	for _, d := range []shardlimit.Decision{
		down(false, io.EOF), down(false, context.DeadlineExceeded),
		down(true, context.DeadlineExceeded), down(true, io.EOF), down(true, io.EOF),
		down(false, shardlimit.ErrBreakerOpen),
		none(context.Canceled), none(context.DeadlineExceeded),
		none(shardlimit.ErrClosed),
		none(errors.New("NOPERM")),
	} {
		m.Observer().Decided(t.Context(), d)
	}
	want(t, m, `
# HELP shardlimit_decisions_total Decisions, by what made them.
# TYPE shardlimit_decisions_total counter
shardlimit_decisions_total{outcome="allowed",policy="api",source="fallback"} 6
# HELP shardlimit_failures_total Calls that Redis did not decide, by what became of them.
# TYPE shardlimit_failures_total counter
shardlimit_failures_total{class="caller",policy="api"} 2
shardlimit_failures_total{class="closed",policy="api"} 1
shardlimit_failures_total{class="configuration",policy="api"} 1
shardlimit_failures_total{class="never_ran",policy="api"} 2
shardlimit_failures_total{class="open",policy="api"} 1
shardlimit_failures_total{class="unknown",policy="api"} 3
# HELP shardlimit_granted_units_total Units granted, by what granted them; those of the fallback were charged nowhere.
# TYPE shardlimit_granted_units_total counter
shardlimit_granted_units_total{policy="api",source="fallback"} 18
# HELP shardlimit_unknown_units_total Units of the calls of class unknown, charged once or not at all.
# TYPE shardlimit_unknown_units_total counter
shardlimit_unknown_units_total{policy="api"} 9
`, "shardlimit_decisions_total", "shardlimit_failures_total", "shardlimit_granted_units_total", "shardlimit_unknown_units_total")
}

func TestDurationsAreThoseOfCallsToRedis(t *testing.T) {
	m := metrics.New(metrics.Config{})
	decided := m.Observer().Decided
	took := func(source shardlimit.Source, d time.Duration) {
		decided(t.Context(), shardlimit.Decision{Policy: "api", Result: shardlimit.Result{Source: source}, Took: d})
	}
	took(shardlimit.FromRedis, 150*time.Microsecond)
	took(shardlimit.FromRedis, 3*time.Millisecond)
	took(shardlimit.FromFallback, 60*time.Millisecond)
	took(shardlimit.FromMemory, time.Nanosecond)
	for source, sum := range map[string]float64{"redis": 0.00315, "fallback": 0.06} {
		h := histogram(t, m, "shardlimit_call_duration_seconds", source)
		if got := h.GetSampleSum(); got < sum*0.999 || got > sum*1.001 {
			t.Errorf("%s: calls of %v s in all, want %v", source, got, sum)
		}
		if h.GetSchema() == 0 || len(h.GetBucket()) != 10 {
			t.Errorf("%s: schema %d and %d classic buckets, want a native histogram and 10", source, h.GetSchema(), len(h.GetBucket()))
		}
	}
	if n := testutil.CollectAndCount(m, "shardlimit_call_duration_seconds"); n != 2 {
		t.Errorf("%d sources of durations, want redis and fallback", n)
	}
}

func TestSeriesAreAsManyWhateverTheSubjects(t *testing.T) {
	m := metrics.New(metrics.Config{})
	l := local(t, m.Observer())
	m.Watch(l)
	p := policy("api", shardlimit.PerHour(1))
	ask := func(from, to int) int {
		for i := from; i < to; i++ {
			for range 2 { // allowed, denied
				allowN(t, l, p, fmt.Sprint("user:", i), 1)
			}
		}
		return testutil.CollectAndCount(m)
	}
	if few, many := ask(0, 1), ask(1, 100_000); few != many || few == 0 {
		t.Errorf("%d series for one subject, %d for 100,000", few, many)
	}
}

func TestOwnObserverIsToldToo(t *testing.T) {
	var told []string
	note := func(what string) { told = append(told, what) }
	m := metrics.New(metrics.Config{Observer: shardlimit.Observer{
		Decided:         func(context.Context, shardlimit.Decision) { note("decided") },
		Sending:         func(string, int) { note("sending") },
		Reloading:       func() { note("reloading") },
		BreakerChanged:  func(shardlimit.BreakerChange) { note("breaker") },
		FallbackChanged: func(shardlimit.FallbackChange) { note("fallback") },
		TopologyChanged: func([]string) { note("topology") },
		Misconfigured:   func(string, error) { note("misconfigured") },
	}})
	o := m.Observer()
	o.Decided(t.Context(), shardlimit.Decision{})
	o.Sending("", 1)
	o.Reloading()
	o.BreakerChanged(shardlimit.BreakerChange{})
	o.FallbackChanged(shardlimit.FallbackChange{})
	o.TopologyChanged(nil)
	o.Misconfigured("", nil)
	if got := strings.Join(told, " "); got != "decided sending reloading breaker fallback topology misconfigured" {
		t.Errorf("the observer was told of %q", got)
	}
}

func TestConfigurationShowsOnceThereIsOne(t *testing.T) {
	m := metrics.New(metrics.Config{})
	names := []string{"shardlimit_config_generation", "shardlimit_config_last_reload_successful"}
	show := func(generation, successful int) string {
		return fmt.Sprintf(`
# HELP shardlimit_config_generation Number of the configuration in use; the first is 1.
# TYPE shardlimit_config_generation gauge
shardlimit_config_generation %d
# HELP shardlimit_config_last_reload_successful Whether the configuration as it was last read is in use.
# TYPE shardlimit_config_last_reload_successful gauge
shardlimit_config_last_reload_successful %d
`, generation, successful)
	}
	want(t, m, "", names...)
	m.ConfigLoaded(1)
	want(t, m, show(1, 1), names...)
	m.ConfigRefused()
	want(t, m, show(1, 0), names...)
	m.ConfigLoaded(2)
	want(t, m, show(2, 1), names...)
}

func TestAKnownKindIsCountedWithoutAllocation(t *testing.T) {
	decided := metrics.New(metrics.Config{}).Observer().Decided
	d := shardlimit.Decision{Policy: "api", Result: shardlimit.Result{Allowed: true, Granted: 1, Source: shardlimit.FromMemory}}
	if n := testing.AllocsPerRun(100, func() { decided(t.Context(), d) }); n != 0 {
		t.Errorf("%v allocations for each decision, want none", n)
	}
}

func BenchmarkDecided(b *testing.B) {
	for _, source := range []shardlimit.Source{shardlimit.FromMemory, shardlimit.FromRedis} {
		b.Run(source.String(), func(b *testing.B) {
			b.ReportAllocs()
			decided := metrics.New(metrics.Config{}).Observer().Decided
			d := shardlimit.Decision{Policy: "api", Took: time.Millisecond, Result: shardlimit.Result{Allowed: true, Granted: 1, Source: source}}
			for b.Loop() {
				decided(b.Context(), d)
			}
		})
	}
}

// TestAShardThatIsGoneShows kills one primary of a real cluster.
func TestAShardThatIsGoneShows(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Args: []string{"--cluster-require-full-coverage", "no"}})
	m := metrics.New(metrics.Config{})
	changed := make(chan struct{}, 1)
	o := m.Observer()
	count := o.BreakerChanged
	o.BreakerChanged = func(b shardlimit.BreakerChange) {
		count(b)
		changed <- struct{}{}
	}
	l, err := shardlimit.Open(&redis.ClusterOptions{Addrs: c.Addrs()}, shardlimit.Config{
		Timeout: time.Second, Observer: o,
		Breaker: shardlimit.BreakerConfig{MinCalls: 2, Window: time.Minute}, // two calls that wait will do
		Logger:  slog.New(slog.DiscardHandler),
	})
	closing.Opened(t, l, err)
	m.Watch(l)
	p := policy("api", shardlimit.PerHour(1))
	for i := range 50 { // each shard is asked
		allowN(t, l, p, fmt.Sprint("user:", i), 1)
	}
	gone := c.Nodes()[0]
	if err := gone.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for open := false; !open; {
		for i := range 50 {
			allowN(t, l, p, fmt.Sprint("user:", i), 1)
		}
		select {
		case <-changed:
			open = true
		default:
		}
	}
	want(t, m, fmt.Sprintf(`
# HELP shardlimit_breaker_changes_total Breakers that opened and that closed.
# TYPE shardlimit_breaker_changes_total counter
shardlimit_breaker_changes_total{state="closed"} 0
shardlimit_breaker_changes_total{state="open"} 1
# HELP shardlimit_breaker_open Whether the shard's breaker is open, so that no calls go out to it.
# TYPE shardlimit_breaker_open gauge
%s# HELP shardlimit_fallback_in_use Whether the policies' failure modes answer some of the shard's calls, or all.
# TYPE shardlimit_fallback_in_use gauge
%s# HELP shardlimit_shards Shards that the limiter knows of.
# TYPE shardlimit_shards gauge
shardlimit_shards 3
`, shards("shardlimit_breaker_open", c.Addrs(), gone.Addr()), shards("shardlimit_fallback_in_use", c.Addrs(), gone.Addr())),
		"shardlimit_breaker_changes_total", "shardlimit_breaker_open", "shardlimit_fallback_in_use", "shardlimit_shards")
	if n := value(t, m, "shardlimit_topology_reloads_total"); n == 0 {
		t.Error("no reload of the topology was counted")
	}
	if h := histogram(t, m, "shardlimit_batch_calls", ""); h.GetSampleCount() < 50 || h.GetSampleSum() < 50 {
		t.Errorf("%d batches of %v calls, want at least 50 of each", h.GetSampleCount(), h.GetSampleSum())
	}
}

// shards returns the lines of a metric that is 1 for one shard.
func shards(name string, addrs []string, one string) string {
	var b strings.Builder
	for _, addr := range addrs {
		value := 0
		if addr == one {
			value = 1
		}
		fmt.Fprintf(&b, "%s{shard=%q} %d\n", name, addr, value)
	}
	return b.String()
}
