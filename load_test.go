package shardlimit_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
)

// newLimiter returns a limiter on the cluster, with keys of the test's own.
func newLimiter(t *testing.T, c *rediscluster.Cluster) *shardlimit.Limiter {
	t.Helper()
	return clustered(t, redistest.Client(t, c, nil))
}

// exactPolicies returns a policy of each algorithm, and one of two limits, that
// each admit exactly n units in this test.
func exactPolicies(n int64) []*shardlimit.Policy {
	var policies []*shardlimit.Policy
	for _, a := range algorithms {
		policies = append(policies, shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name:   a.String(),
			Limits: []shardlimit.Limit{shardlimit.Per(n, long).WithAlgorithm(a)},
		}))
	}
	return append(policies, shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "two",
		Limits: []shardlimit.Limit{
			shardlimit.Per(n, long),
			shardlimit.Per(2*n, long).WithAlgorithm(shardlimit.FixedWindow),
		},
	}))
}

// pair is one policy and subject, and what happened to it.
type pair struct {
	policy   *shardlimit.Policy
	subject  string
	due      atomic.Int64 // more often than that it is asked
	asked    atomic.Int64
	admitted atomic.Int64
}

// load asks every pair in turn, from many goroutines, until what goes on
// meanwhile is over and each pair has been asked since, and more often than its
// limit. Then each pair must have been admitted exactly limit times, without an
// error: over 0, under 0.
func load(t *testing.T, l *shardlimit.Limiter, policies []*shardlimit.Policy, subjects []string, limit int64, meanwhile func(ctx context.Context) error) {
	t.Helper()
	var pairs []*pair
	for _, s := range subjects {
		for _, p := range policies {
			pair := &pair{policy: p, subject: s}
			pair.due.Store(limit)
			pairs = append(pairs, pair)
		}
	}
	over := make(chan error, 1)
	go func() { over <- meanwhile(t.Context()) }()

	var next, failed atomic.Int64
	var done atomic.Bool
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for idle := 0; idle < len(pairs) || !done.Load(); {
				p := pairs[next.Add(1)%int64(len(pairs))]
				if done.Load() && p.asked.Load() > p.due.Load() {
					idle++
					continue
				}
				idle = 0
				if !p.ask(t, l) && failed.Add(1) > 10 {
					return
				}
			}
		})
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	for _, p := range pairs { // each once more, to meet what has changed
		p.due.Store(max(limit, p.asked.Load()))
	}
	done.Store(true)
	workers.Wait()

	var asked int64
	for _, p := range pairs {
		asked += p.asked.Load()
		if got := p.admitted.Load(); got != limit {
			t.Errorf("%s, %q: %d of %d admitted, want %d", p.policy.Name(), p.subject, got, p.asked.Load(), limit)
		}
	}
	t.Logf("%d pairs, %d decisions, %d errors", len(pairs), asked, failed.Load())
}

// ask makes one decision and reports whether Redis made it, or this process by
// what Redis had said.
func (p *pair) ask(t *testing.T, l *shardlimit.Limiter) bool {
	r, err := l.Allow(t.Context(), p.policy, p.subject)
	p.asked.Add(1)
	if err != nil || r.Failure != nil {
		t.Errorf("Allow(%s, %q) = %+v, %v; want a decision by Redis", p.policy.Name(), p.subject, r, err)
		return false
	}
	p.admitted.Add(r.Granted)
	return true
}

// subjectsIn returns n subjects whose keys are in the slot.
func subjectsIn(slot uint16, n int) []string {
	var subjects []string
	for i := 0; len(subjects) < n; i++ {
		if s := "user:" + strconv.Itoa(i); keys.Slot(s) == slot {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

func subjects(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "user:" + strconv.Itoa(i)
	}
	return all
}

// otherPrimary returns a primary that does not serve the slot.
func otherPrimary(ctx context.Context, c *rediscluster.Cluster, slot int) (*rediscluster.Node, error) {
	owner, err := c.Owner(ctx, slot)
	if err != nil {
		return nil, err
	}
	primaries, err := c.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range primaries {
		if p != owner {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no primary but the owner of slot %d", slot)
}
