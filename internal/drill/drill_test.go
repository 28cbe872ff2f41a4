package drill_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/drill"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Every fault in its short form: little load and long timeouts, for what must
// be exact on any machine.
func TestEveryFaultKeepsThePromises(t *testing.T) {
	t.Parallel()
	rehearse(t, 2, append([]drill.Scenario{drill.Control()}, drill.Scenarios()...), drill.Options{
		Rate: 400, Subjects: 40, Limiters: 2, Timeout: 250 * time.Millisecond, Calm: 300 * time.Millisecond,
	}, func(*testing.T, *drill.Report) {})
}

// The same of hot subjects, whose units are lent: those that took a shard's primary
// away.
func TestFaultsOfAShardThatLends(t *testing.T) {
	t.Parallel()
	lends := slices.DeleteFunc(drill.Scenarios(), func(s drill.Scenario) bool {
		return !slices.Contains([]string{"killed", "stopped 3 s", "cut from peers", "cut from both", "failover"}, s.Name)
	})
	rehearse(t, 1, append([]drill.Scenario{drill.Control()}, lends...), drill.Options{
		Rate: 2400, Subjects: 20, Limiters: 2, Timeout: 250 * time.Millisecond, Calm: time.Second, Leases: true,
	}, func(t *testing.T, r *drill.Report) {
		if r.Account.Leased == 0 {
			t.Error("nothing was decided by a lease")
		}
	})
}

// rehearse does each scenario to one of so many clusters, which do theirs side by
// side: most of a scenario is waiting.
func rehearse(t *testing.T, clusters int, scenarios []drill.Scenario, o drill.Options, check func(*testing.T, *drill.Report)) {
	t.Helper()
	well := make(chan *rediscluster.Cluster, clusters)
	for range clusters {
		well <- redistest.Start(t, drill.Servers(""))
	}
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			c := <-well
			defer func() { well <- c }()
			r := untilSeen(t, c, s, o)
			if broken := append(r.Broken, r.Missed...); len(broken) > 0 {
				t.Errorf("%s, %s: %s", s.Does, s.Promise, strings.Join(broken, "; "))
			}
			check(t, r)
		})
	}
}

// untilSeen plays a scenario until what is to be seen of its fault was, or a
// promise was broken; thrice at most. On a busy machine a breaker may open before
// a call meets a refusal, and what nobody saw shows nothing.
func untilSeen(t *testing.T, c *rediscluster.Cluster, s drill.Scenario, o drill.Options) (r *drill.Report) {
	t.Helper()
	for range 3 {
		var err error
		r, err = drill.Run(t.Context(), c, s, o)
		redistest.Cut(t, err)
		t.Logf("%+v", r.Account)
		if len(r.Broken) > 0 || len(r.Missed) == 0 {
			break
		}
	}
	return r
}
