package metrics_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/metrics"
)

// onCluster returns a limiter on the cluster that m watches.
func onCluster(t *testing.T, c *rediscluster.Cluster, m *metrics.Metrics, prefix string) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.Open(c.ClientOptions(), shardlimit.Config{
		Prefix: prefix, Timeout: 10 * time.Second, Observer: m.Observer(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(l)
	return l
}

// hot is a policy that no test uses up, in one window for a week.
func hot(name string, rate int64) *shardlimit.Policy {
	return policy(name, shardlimit.Per(rate, 7*24*time.Hour).WithAlgorithm(shardlimit.FixedWindow))
}

const plenty = 1_000_000_000

// book is what callers were told: series of decisions_total and of
// granted_units_total, by their labels.
type book struct {
	mu               sync.Mutex
	decisions, units map[string]float64
}

func (b *book) note(p *shardlimit.Policy, r shardlimit.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	outcome := "denied"
	if r.Allowed {
		outcome = "allowed"
		b.units[fmt.Sprintf("%s %s", p.Name(), r.Source)] += float64(r.Granted)
	}
	b.decisions[fmt.Sprintf("%s %s %s", outcome, p.Name(), r.Source)]++
}

// drive asks for the policies' subject side by side, until so many requests were
// decided by a lease and by a known denial.
func (b *book) drive(t *testing.T, l *shardlimit.Limiter, leases, denials int, policies ...*shardlimit.Policy) {
	t.Helper()
	var asking sync.WaitGroup
	var mu sync.Mutex
	more := func(s shardlimit.Source) bool {
		mu.Lock()
		defer mu.Unlock()
		if s == shardlimit.FromLease {
			leases--
		}
		if s == shardlimit.FromDenial {
			denials--
		}
		return leases > 0 || denials > 0
	}
	for i := range 8 {
		asking.Go(func() {
			for again := true; again; {
				for _, p := range policies {
					r, err := l.AllowN(t.Context(), p, "hot", int64(1+i%3))
					if err != nil {
						t.Error(err)
						return
					}
					b.note(p, r)
					again = more(r.Source)
				}
			}
		})
	}
	asking.Wait()
}

// series returns a counter's values by those of its labels.
func series(t *testing.T, m *metrics.Metrics, name string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, s := range gather(t, m)[name].GetMetric() {
		all[labels(s)] = s.GetCounter().GetValue()
	}
	return all
}

// labels returns the values of labels, in the order of their names.
func labels(s *dto.Metric) (text string) {
	for i, l := range s.GetLabel() {
		if i > 0 {
			text += " "
		}
		text += l.GetValue()
	}
	return text
}

func equal(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	for labels, n := range want {
		if got[labels] != n {
			t.Errorf("%s of %s: %v, and callers were told %v", what, labels, got[labels], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %v; callers were told %v", what, got, want)
	}
}

// TestLocalDecisionsAreCountedAsCallersSawThem: each decision of a lease, of a known denial and of
// Redis has been told to a caller, and each unit lent was spent or is back.
func TestLocalDecisionsAreCountedAsCallersSawThem(t *testing.T) {
	c, m, prefix := redistest.Shared(t), metrics.New(metrics.Config{}), redistest.Prefix(t)
	l := onCluster(t, c, m, prefix)
	b := &book{decisions: map[string]float64{}, units: map[string]float64{}}
	free, full := hot("free", plenty), hot("full", 3)
	b.drive(t, l, 500, 100, free, full)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	equal(t, "decisions", series(t, m, "shardlimit_decisions_total"), b.decisions)
	units := series(t, m, "shardlimit_granted_units_total")
	equal(t, "units", units, b.units)

	lent, back, forgotten := value(t, m, "shardlimit_lent_units_total"), value(t, m, "shardlimit_given_back_units_total"), value(t, m, "shardlimit_forgotten_units_total")
	if spent := units["free lease"]; spent == 0 || lent != spent+back || forgotten != 0 {
		t.Errorf("%v lent, %v spent, %v given back, %v forgotten; want all spent or given back", lent, spent, back, forgotten)
	}
	if asks := value(t, m, "shardlimit_lease_calls_total"); asks == 0 {
		t.Error("no call for leases was counted")
	}
	for _, name := range []string{"shardlimit_leases", "shardlimit_lease_units"} {
		if n := gather(t, m)[name].GetMetric()[0].GetGauge().GetValue(); n != 0 {
			t.Errorf("%s is %v once the limiter is closed, want 0", name, n)
		}
	}
	other := onCluster(t, c, metrics.New(metrics.Config{}), prefix)
	closing.AtEnd(t, other)
	r, err := other.Peek(t.Context(), free, "hot")
	if want := plenty - int64(units["free lease"]+units["free redis"]); err != nil || r.Remaining != want {
		t.Errorf("%d units are left in Redis (%v), want %d: all but those that were granted", r.Remaining, err, want)
	}
}

// TestUnitsThatCanNotGoBackAreForgotten: their shard is gone while a lease has some left.
func TestUnitsThatCanNotGoBackAreForgotten(t *testing.T) {
	c, m := redistest.Start(t, redistest.Options{Shards: 1}), metrics.New(metrics.Config{})
	l := onCluster(t, c, m, redistest.Prefix(t))
	b := &book{decisions: map[string]float64{}, units: map[string]float64{}}
	held := func() float64 { return gather(t, m)["shardlimit_lease_units"].GetMetric()[0].GetGauge().GetValue() }
	for left := 0.0; left == 0; left = held() { // until some are left once nothing can be settled
		if err := c.Nodes()[0].Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.drive(t, l, 100, 0, hot("free", plenty))
		if err := c.Nodes()[0].Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_ = l.Close() // which may say that the shard is away
	lent, back, forgotten := value(t, m, "shardlimit_lent_units_total"), value(t, m, "shardlimit_given_back_units_total"), value(t, m, "shardlimit_forgotten_units_total")
	if spent := series(t, m, "shardlimit_granted_units_total")["free lease"]; forgotten == 0 || lent != spent+back+forgotten {
		t.Errorf("%v lent, %v spent, %v given back, %v forgotten; want some forgotten, and nothing else missing", lent, spent, back, forgotten)
	}
}
