package drill_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/drill"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Every fault in its short form: little load and long timeouts, for what must
// be exact on any machine.
func TestEveryFaultKeepsThePromises(t *testing.T) {
	rehearse(t, append([]drill.Scenario{drill.Control()}, drill.Scenarios()...), drill.Options{
		Rate: 400, Subjects: 40, Limiters: 2, Timeout: 250 * time.Millisecond, Calm: 300 * time.Millisecond,
	})
}

// The same of hot subjects, whose units are lent: those that took a shard's primary
// away.
func TestFaultsOfAShardThatLends(t *testing.T) {
	lends := slices.DeleteFunc(drill.Scenarios(), func(s drill.Scenario) bool {
		return !slices.Contains([]string{"killed", "stopped 3 s", "cut from peers", "cut from both", "failover"}, s.Name)
	})
	for _, r := range rehearse(t, append([]drill.Scenario{drill.Control()}, lends...), drill.Options{
		Rate: 2400, Subjects: 20, Limiters: 2, Timeout: 250 * time.Millisecond, Calm: time.Second, Leases: true,
	}) {
		if r.Account.Leased == 0 {
			t.Errorf("%s: nothing was decided by a lease", r.Name)
		}
	}
}

// rehearse does the scenarios one after the other.
func rehearse(t *testing.T, scenarios []drill.Scenario, o drill.Options) (reports []*drill.Report) {
	t.Helper()
	c := redistest.Start(t, drill.Servers(""))
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			r, err := drill.Run(t.Context(), c, s, o)
			redistest.Cut(t, err)
			t.Logf("%+v", r.Account)
			reports = append(reports, r)
			if broken := append(r.Broken, r.Missed...); len(broken) > 0 {
				t.Errorf("%s, %s: %s", s.Does, s.Promise, strings.Join(broken, "; "))
			}
		})
	}
	return reports
}
