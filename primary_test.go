package shardlimit_test

import (
	"context"
	"slices"
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

// A primary lost under load, its replica promoted: its subjects are answered by
// the mode meanwhile, the others by Redis, nobody with an error. Over is at most
// what the replica may not have received.
func TestPrimaryLostUnderLoad(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*rediscluster.Node, context.Context) error{
		"killed": (*rediscluster.Node).Kill,
		"hangs":  (*rediscluster.Node).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.Start(t, redistest.Options{
				Replicas: 1, NodeTimeout: 2 * time.Second, Args: []string{"--cluster-require-full-coverage", "no"},
			})
			losePrimary(t, c, lose)
		})
	}
}

func losePrimary(t *testing.T, c *rediscluster.Cluster, lose func(*rediscluster.Node, context.Context) error) {
	t.Helper()
	node := c.Nodes()[0]
	slot := int(keys.Slot(subjectsOf(t, c, node, 1)[0]))
	rec := newRecorder()
	l := newOn(t, redistest.Client(t, c, func(o *redis.ClusterOptions) {
		o.ContextTimeoutEnabled, o.ReadTimeout = true, time.Second // for who asks a node that hangs where the slots are
	}), shardlimit.Config{
		Prefix: redistest.Prefix(t), Timeout: 3 * time.Second, Observer: rec.observer(),
		Breaker: shardlimit.BreakerConfig{MinCalls: 5, Window: 15 * time.Second},
	})
	const limit = 100
	p := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.Per(limit, long)}, Leases: shardlimit.LeaseOff,
	})
	tally := newTally(t, c, node)
	end := tally.drive(t, l, p)

	tally.risk.Store(exposed)
	if err := c.InStep(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := lose(node, t.Context()); err != nil {
		t.Fatal(err)
	}
	tally.risk.Store(isLost)
	promoted := awaitOwner(t, c, slot, node)
	tally.promoted.Store(time.Now().UnixNano())
	tally.awaitRedis(t)
	end()
	over := tally.exhaust(t, l, p, limit)

	t.Logf("promoted after %v, its subjects from Redis again %v after that was seen",
		time.Unix(0, tally.promoted.Load()).Sub(began), time.Duration(tally.first.Load()-tally.promoted.Load()))
	t.Logf("its subjects: %d from Redis, %d by the mode; others: %d from Redis", tally.redis.Load(), tally.mode.Load(), tally.others.Load())
	t.Logf("over %d units of %d, %d at risk", over, limit*len(tally.its), tally.atRisk.Load())
	if over > tally.atRisk.Load() {
		t.Errorf("over %d units, of which the replica may not have received %d", over, tally.atRisk.Load())
	}
	rec.wait(t, "topology", "3")
	if s := stateOf(l, promoted); s.Address == "" || s.Open {
		t.Errorf("Inspect: the promoted shard is %+v", s)
	}
	if s := stateOf(l, node.Addr()); s.Address != "" {
		t.Errorf("Inspect: %+v of a shard that serves nothing", s)
	}
}

// awaitOwner waits until another node serves the slot, and returns its address.
func awaitOwner(t *testing.T, c *rediscluster.Cluster, slot int, before *rediscluster.Node) string {
	t.Helper()
	for t.Context().Err() == nil {
		if owner, err := c.Owner(t.Context(), slot); err == nil && owner != before {
			return owner.Addr()
		}
	}
	t.Fatal("nobody was promoted")
	return ""
}

// tally counts what became of the calls for one shard's subjects and others'.
type tally struct {
	its, other          []string
	admitted            []*atomic.Int64 // units by Redis, for each of all subjects
	redis, mode, others atomic.Int64
	risk                atomic.Int32 // how far the loss is
	atRisk              atomic.Int64 // units admitted that the replica may not have received
	promoted, first     atomic.Int64 // Unix ns: when the promotion was seen, and its subjects from Redis again
	again               chan struct{}
}

// How far the loss of the shard's primary is. What it admits once its replica may
// be behind, and before it is gone, is at risk.
const (
	unhurt int32 = iota
	exposed
	isLost
)

func newTally(t *testing.T, c *rediscluster.Cluster, node *rediscluster.Node) *tally {
	t.Helper()
	nodes := c.Nodes()
	y := &tally{its: subjectsOf(t, c, node, 20), other: append(subjectsOf(t, c, nodes[1], 10), subjectsOf(t, c, nodes[2], 10)...)}
	y.again = make(chan struct{})
	for range len(y.its) + len(y.other) {
		y.admitted = append(y.admitted, &atomic.Int64{})
	}
	return y
}

// drive asks for all subjects in turn from many goroutines, and returns once
// Redis has decided for each; the function that it returns ends it.
func (y *tally) drive(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy) (end func()) {
	var workers sync.WaitGroup
	var next atomic.Int64
	var done atomic.Bool
	warm := make(chan struct{})
	for range 8 {
		workers.Go(func() {
			for !done.Load() {
				i := int(next.Add(1))
				if i == 400 {
					close(warm)
				}
				y.ask(t, l, p, i%len(y.admitted))
			}
		})
	}
	<-warm
	return func() {
		done.Store(true)
		workers.Wait()
	}
}

func (y *tally) ask(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, i int) {
	its := i < len(y.its)
	subject := append(slices.Clone(y.its), y.other...)[i]
	before := y.risk.Load()
	r, err := l.Allow(t.Context(), p, subject)
	switch {
	case err != nil:
		t.Errorf("Allow(%s): %v", subject, err)
	case r.Failure == nil:
		y.admitted[i].Add(r.Granted)
		if its && before != isLost && y.risk.Load() != unhurt {
			y.atRisk.Add(r.Granted)
		}
		y.fromRedis(its)
	case its:
		y.mode.Add(1)
	default:
		t.Errorf("Allow(%s), of another shard = %+v", subject, r)
	}
}

func (y *tally) fromRedis(its bool) {
	if !its {
		y.others.Add(1)
		return
	}
	y.redis.Add(1)
	if y.promoted.Load() != 0 && y.first.CompareAndSwap(0, time.Now().UnixNano()) {
		close(y.again)
	}
}

func (y *tally) awaitRedis(t *testing.T) {
	t.Helper()
	select {
	case <-y.again:
	case <-t.Context().Done():
		t.Fatal("Redis doesn't decide for its subjects again")
	}
}

// exhaust asks until each subject has had its limit, and returns how much the
// shard's subjects had above it. The others must have had exactly that.
func (y *tally) exhaust(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, limit int64) (over int64) {
	for i, n := range y.admitted {
		for range limit {
			y.ask(t, l, p, i)
		}
		switch {
		case i < len(y.its):
			over += max(0, n.Load()-limit)
		case n.Load() != limit:
			t.Errorf("%s, of another shard: %d admitted, want %d", y.other[i-len(y.its)], n.Load(), limit)
		}
	}
	return over
}
