package shardlimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
)

// splitPolicies are exactPolicies of subjects in parts.
func splitPolicies(n int64, parts int) []*shardlimit.Policy {
	var split []*shardlimit.Policy
	for _, p := range exactPolicies(n) {
		split = append(split, shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: p.Name(), Limits: p.Limits(), Parts: parts}))
	}
	return split
}

// slotOfPart returns the slot of a part of the subject.
func slotOfPart(subject string, part, parts int) int {
	return int(keys.Slot(keys.ForPart("any", subject, "any", "any", part, parts)))
}

// together are limiters of several processes.
func together(t *testing.T, rdb redis.UniversalClient, n int, cfg shardlimit.Config) []*shardlimit.Limiter {
	t.Helper()
	limiters := make([]*shardlimit.Limiter, n)
	for i := range limiters {
		limiters[i] = newOn(t, rdb, cfg)
	}
	return limiters
}

// askers is what many who ask for one subject were granted.
type askers struct {
	policy   *shardlimit.Policy
	subject  string
	admitted atomic.Int64
	unknown  atomic.Int64
	failures atomic.Int64 // that were not unknown
}

// ask has each of the limiters asked from four goroutines, as long as goOn.
func (c *askers) ask(t *testing.T, limiters []*shardlimit.Limiter, goOn func() bool) {
	t.Helper()
	var all sync.WaitGroup
	for _, l := range limiters {
		for range 4 {
			all.Go(func() {
				for goOn() {
					c.once(t, l)
				}
			})
		}
	}
	all.Wait()
}

func (c *askers) once(t *testing.T, l *shardlimit.Limiter) {
	r := allow(t, l, c.policy, c.subject)
	down, failed := errors.AsType[*shardlimit.UnavailableError](r.Failure)
	switch {
	case failed && down.Unknown:
		c.unknown.Add(1)
	case failed:
		c.failures.Add(1)
	default:
		c.admitted.Add(r.Granted)
	}
}

// reaches asks until limit units were admitted, or a minute is over, and some more
// after that: exactly as many must be, but for those of outcomes that are unknown.
func (c *askers) reaches(t *testing.T, limiters []*shardlimit.Limiter, limit int64) {
	t.Helper()
	over := time.Now().Add(time.Minute)
	c.ask(t, limiters, func() bool { return c.admitted.Load()+c.unknown.Load() < limit && time.Now().Before(over) })
	var more atomic.Int64
	c.ask(t, limiters, func() bool { return more.Add(1) <= 400 })
	if n, unknown := c.admitted.Load(), c.unknown.Load(); n > limit || n < limit-unknown {
		t.Errorf("%s, %q: %d admitted, want %d; %d unknown", c.policy.Name(), c.subject, n, limit, unknown)
	}
}

// Several processes ask for a subject in parts, by each algorithm: over 0, and in
// the end under 0. All primaries have a share of it.
func TestPartsPassExactlyTheLimit(t *testing.T) {
	c := redistest.Shared(t)
	rdb := redistest.Client(t, c, nil)
	const limit, parts = 1207, 12
	for _, p := range splitPolicies(limit, parts) {
		t.Run(p.Name(), func(t *testing.T) {
			prefix := redistest.Prefix(t)
			crowd := &askers{policy: p, subject: "hot"}
			crowd.reaches(t, together(t, rdb, 4, shardlimit.Config{Prefix: prefix, Timeout: patient}), limit)
			if n := crowd.failures.Load() + crowd.unknown.Load(); n != 0 {
				t.Errorf("%d calls failed", n)
			}
			for node, n := range keysHeld(t, rdb, prefix) {
				if n != parts/3 {
					t.Errorf("%s holds %d of %d parts, want a third", node, n, parts)
				}
			}
		})
	}
}

// keysHeld returns how many keys of the prefix each primary holds.
func keysHeld(t *testing.T, rdb *redis.ClusterClient, prefix string) map[string]int {
	t.Helper()
	var mu sync.Mutex
	found := map[string]int{}
	err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		all, err := node.Keys(ctx, prefix+":*").Result()
		mu.Lock()
		defer mu.Unlock()
		found[node.Options().Addr] = len(all)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The slot of a part moves key by key while all parts are asked: no error, over 0,
// under 0.
func TestSlotOfAPartMovesUnderLoad(t *testing.T) {
	c := redistest.Shared(t)
	const limit, parts, subject = 600, 8, "hot"
	slot := slotOfPart(subject, 5, parts)
	limiters := together(t, redistest.Client(t, c, nil), 3, shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: patient})
	before := redistest.Errors(t, c)
	var moved atomic.Bool
	var crowds []*askers
	var all sync.WaitGroup
	for _, p := range splitPolicies(limit, parts) {
		one := &askers{policy: p, subject: subject}
		crowds = append(crowds, one)
		all.Go(func() { one.ask(t, limiters, func() bool { return !moved.Load() }) })
	}
	to, err := otherPrimary(t.Context(), c, slot)
	if err == nil {
		err = c.MoveSlot(t.Context(), slot, to, 2*time.Second)
	}
	moved.Store(true)
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	met := redistest.Errors(t, c).Since(before)
	t.Logf("redirects met: %v", met)
	if met["ASK"] == 0 || met["TRYAGAIN"] != 0 {
		t.Errorf("redirects met: %v; want ASK, or the slot moved unseen, and no TRYAGAIN", met)
	}
	for _, one := range crowds {
		one.reaches(t, limiters, limit)
		if n := one.failures.Load() + one.unknown.Load(); n != 0 {
			t.Errorf("%s: %d calls failed", one.policy.Name(), n)
		}
	}
}

// A shard goes that serves a third of the parts: the others go on, to their last
// unit, and the failure mode is not asked. Once it is back, so are its parts.
func TestPartsGoOnWithoutAShard(t *testing.T) {
	c, node, its, _ := oneShard(t)
	const limit, parts, subject = 1200, 12, "hot"
	alive := int64(limit / parts * (parts - partsOf(t, c, node, subject, parts)))
	limiters := together(t, clientOf(t, c), 6, shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: patient})
	warm := inParts(parts, shardlimit.Per(limit, long))
	unsplit := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "unsplit", Limits: warm.Limits(), OnFailure: shardlimit.FailClosed(), Timeout: 100 * time.Millisecond,
	})
	for _, l := range limiters {
		for range 100 {
			if r := allow(t, l, warm, "warm"); r.Failure != nil {
				t.Fatalf("Allow = %+v", r)
			}
		}
	}
	if err := node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	crowd := &askers{policy: warm, subject: subject}
	crowd.reaches(t, limiters, alive)
	if n := crowd.failures.Load(); n != 0 {
		t.Errorf("%d calls were answered by the mode, though other parts could", n)
	}
	t.Logf("%d of %d units admitted without the shard, %d outcomes unknown", crowd.admitted.Load(), limit, crowd.unknown.Load())
	if r := allow(t, limiters[0], unsplit, its); r.Failure == nil {
		t.Errorf("Allow of an unsplit subject of the shard = %+v, want a failure", r)
	}

	if err := errors.Join(node.Restart(t.Context()), c.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	crowd.reaches(t, limiters, limit)
}

// partsOf returns how many parts of the subject the node serves.
func partsOf(t *testing.T, c *rediscluster.Cluster, node *rediscluster.Node, subject string, parts int) (n int) {
	t.Helper()
	for part := range parts {
		owner, err := c.Owner(t.Context(), slotOfPart(subject, part, parts))
		if err != nil {
			t.Fatal(err)
		}
		if owner == node {
			n++
		}
	}
	return n
}

// Each part of a hot subject is leased by itself, and Inspect says which.
func TestPartsAreLeased(t *testing.T) {
	l := newLimiter(t, redistest.Shared(t))
	p := inParts(4, shardlimit.PerSecond(100_000))
	deadline := time.Now().Add(time.Minute)
	var leased shardlimit.Result
	for leased.Source != shardlimit.FromLease && time.Now().Before(deadline) {
		leased = allow(t, l, p, "hot")
	}
	if leased.Source != shardlimit.FromLease || !leased.Allowed {
		t.Fatalf("Allow = %+v, want it from a lease", leased)
	}
	if err := l.Refund(t.Context(), leased); err != nil {
		t.Error(err)
	}
	for _, k := range l.Inspect().HotKeys.Hot {
		if k.Policy != p.Name() || k.Subject != "hot" || k.Part < 1 || k.Part > 4 || k.Parts != 4 {
			t.Errorf("Inspect lists %+v, want a part of 4", k)
		}
	}
	if n := len(l.Inspect().HotKeys.Hot); n == 0 {
		t.Error("Inspect lists no hot part")
	}
	if err := l.Reset(t.Context(), p, "hot"); err != nil {
		t.Error(err)
	}
}
