package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// lots counts the scripts in each lot that a client's nodes are given.
type lots struct {
	mu    sync.Mutex
	sizes []int
}

func (l *lots) add(cmds ...redis.Cmder) {
	if initial(cmds[0]) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes = append(l.sizes, len(cmds))
}

// read returns the sizes since it was read last, sorted.
func (l *lots) read() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes := l.sizes
	l.sizes = nil
	slices.Sort(sizes)
	return sizes
}

func (l *lots) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lots) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		l.add(cmds...)
		return next(ctx, cmds)
	}
}

func (l *lots) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.add(cmd)
		return next(ctx, cmd)
	}
}

// watched returns a Client of the shared cluster, what its nodes are given, and a
// key of each shard, all of which were called once.
func watched(t *testing.T) (*Client, *lots, []string) {
	t.Helper()
	servers := redistest.Shared(t)
	rdb := redistest.Client(t, servers, func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true })
	seen := &lots{}
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(seen) })
	c := wrap(t, rdb)
	var found []string
	for _, node := range servers.Nodes() {
		for i := 0; ; i++ {
			key := fmt.Sprintf("{%s%d}", redistest.Prefix(t), i)
			if at, err := servers.Owner(t.Context(), int(keys.Slot(key[1:len(key)-1]))); err != nil {
				t.Fatal(err)
			} else if at == node {
				found = append(found, key)
				do(t, c, take(many, key))
				break
			}
		}
	}
	seen.read()
	return c, seen, found
}

// settle waits until nothing is under way: what is may take some of what comes.
func (c *Client) settle(t *testing.T) {
	t.Helper()
	for _, s := range c.shards.all() {
		eventually(t, "a shard that is idle", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return !s.busyLocked()
		})
	}
}

// jobs returns n jobs for each key, in turn.
func jobs(keys []string, n int) []Job {
	var all []Job
	for range n {
		for _, key := range keys {
			all = append(all, Job{Call: take(many, key), Deadline: time.Now().Add(patient)})
		}
	}
	return all
}

func TestDoEachSendsOnePipelineToEachShard(t *testing.T) {
	c, seen, found := watched(t)
	for range 20 {
		c.settle(t)
		all := jobs(found, 40)
		c.DoEach(t.Context(), all)
		for i, j := range all {
			if j.Err != nil || j.Reply.Granted != 1 {
				t.Fatalf("job %d: %+v, %v", i, j.Reply, j.Err)
			}
		}
		if got, want := seen.read(), []int{40, 40, 40}; !slices.Equal(got, want) {
			t.Fatalf("pipelines of %v, want %v", got, want)
		}
	}
}

func TestDoEachSplitsWhatIsMoreThanAPipeline(t *testing.T) {
	c, seen, found := watched(t)
	c.settle(t)
	all := jobs(found[:1], 300)
	c.DoEach(t.Context(), all)
	for i, j := range all {
		if j.Err != nil || j.Reply.Granted != 1 {
			t.Fatalf("job %d: %+v, %v", i, j.Reply, j.Err)
		}
	}
	if got, want := seen.read(), []int{44, 128, 128}; !slices.Equal(got, want) {
		t.Errorf("pipelines of %v, want %v", got, want)
	}
}

func TestDoEachGivesEachJobItsOwnOutcome(t *testing.T) {
	c, _, found := watched(t)
	all := jobs(found, 2)
	all[1].Deadline = time.Now() // too late before it begins
	wrong := tagged(t)
	if err := c.rdb.RPush(t.Context(), wrong, "a list").Err(); err != nil {
		t.Fatal(err)
	}
	all[4].Call = take(many, wrong)
	c.DoEach(t.Context(), all)
	for i, want := range map[int]failover.Class{1: failover.NeverRan, 4: failover.Configuration} {
		if f, ok := errors.AsType[*failover.Error](all[i].Err); !ok || f.Class != want {
			t.Errorf("job %d: %v, want class %q", i, all[i].Err, want)
		}
	}
	for _, i := range []int{0, 2, 3, 5} {
		if all[i].Err != nil || all[i].Reply.Granted != 1 {
			t.Errorf("job %d: %+v, %v", i, all[i].Reply, all[i].Err)
		}
	}
	c.DoEach(t.Context(), nil)
}

func TestDoEachBesideOthers(t *testing.T) {
	c, _, _ := watched(t)
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		key := tagged(t)
		var mu sync.Mutex
		var granted int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				var own []Job
				for range 20 {
					own = append(own, Job{Call: take(plan, key), Deadline: time.Now().Add(patient)})
				}
				n := do(t, c, take(plan, key)).Granted
				c.DoEach(t.Context(), own)
				for _, j := range own {
					if j.Err != nil {
						t.Error(j.Err)
					}
					n += j.Reply.Granted
				}
				mu.Lock()
				defer mu.Unlock()
				granted += n
			})
		}
		all.Wait()
		if granted != 10 {
			t.Errorf("%d granted, want 10", granted)
		}
	})
}

// A slot that moves key by key meanwhile changes nothing: each is charged once.
func TestDoEachWhileASlotMoves(t *testing.T) {
	servers := redistest.Shared(t)
	c := newTestClient(t, servers, nil)
	const slot = 777
	var found []string
	for i := 0; len(found) < 30; i++ {
		if tag := fmt.Sprintf("%s%d", redistest.Prefix(t), i); keys.Slot(tag) == slot {
			found = append(found, "{"+tag+"}")
		}
	}
	_, to := owner(t, servers, slot)
	moved := make(chan error, 1)
	go func() { moved <- servers.MoveSlot(t.Context(), slot, to, time.Second) }()
	plan, granted := scripts.NewPlan(limits["token_bucket"]...), map[string]int64{}
	for rounds, over := 0, false; !over || rounds < 20; rounds++ {
		select {
		case err := <-moved:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
		}
		var all []Job
		for _, key := range found {
			all = append(all, Job{Call: take(plan, key), Deadline: time.Now().Add(patient)})
		}
		c.DoEach(t.Context(), all)
		for _, j := range all {
			if j.Err != nil {
				t.Fatal(j.Err)
			}
			granted[j.Call.Key] += j.Reply.Granted
		}
	}
	for _, key := range found {
		if granted[key] != 10 {
			t.Errorf("%s: %d granted, want 10", key, granted[key])
		}
	}
}
