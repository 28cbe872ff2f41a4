package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/relay"
)

// Chaos returns a scenario in which random faults follow each other at random
// times for about as long as span, each at a random shard, while smaller ones
// happen at random nodes beside them. tell is told of each; the same seed
// gives the same faults in the same order, as far as the servers play along.
func Chaos(seed uint64, span time.Duration, tell func(at time.Duration, what string)) Scenario {
	return Scenario{
		Name: "chaos", Does: "random faults at random times", Promise: "over at most what each may have lost",
		Outage: true, tolerates: []string{"NOPERM", "WRONGTYPE"}, everywhere: true, proxied: true,
		act: func(ctx context.Context, f *fault) error {
			c := &chaos{fault: f, tell: tell, end: time.Now().Add(span)}
			return c.run(ctx, seed)
		},
	}
}

// chaos is a fault made of others.
type chaos struct {
	fault *fault
	tell  func(at time.Duration, what string)
	end   time.Time
}

func (c *chaos) run(ctx context.Context, seed uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	var small error
	beside.Go(func() { small = c.jolts(ctx, rand.New(rand.NewPCG(seed, 1))) })
	err := c.blows(ctx, rand.New(rand.NewPCG(seed, 2)))
	beside.Wait()
	return errors.Join(err, small, c.fault.cluster.Wait(ctx))
}

func (c *chaos) over() bool { return !time.Now().Before(c.end) }

// blows does one scenario after the other, but for those that leave nothing to
// judge, or no node that has a proxy.
func (c *chaos) blows(ctx context.Context, random *rand.Rand) error {
	scenarios := slices.DeleteFunc(Scenarios(), func(s Scenario) bool { return s.wipes || s.renews })
	for !c.over() {
		s := scenarios[random.IntN(len(scenarios))]
		c.fault.target = random.IntN(len(c.fault.shards))
		if err := c.blow(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := rediscluster.Pause(ctx, time.Duration(random.IntN(500))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// blow does a scenario; where nodes can't be cut off, those that do are nothing.
func (c *chaos) blow(ctx context.Context, s Scenario) error {
	if _, err := c.fault.reconcile(ctx); err != nil {
		return err
	}
	c.tell(c.fault.load.now(), s.Name+" at "+c.fault.primary().Addr())
	err := s.act(ctx, c.fault)
	if errors.Is(err, rediscluster.ErrCannotCut) {
		return nil
	}
	return err
}

// jolts does small things to random nodes, whatever state they are in.
func (c *chaos) jolts(ctx context.Context, random *rand.Rand) error {
	nodes := c.fault.cluster.Nodes()
	for !c.over() {
		n := nodes[random.IntN(len(nodes))]
		proxy := c.fault.proxies[n.Addr()]
		switch random.IntN(4) {
		case 0:
			flushScripts(ctx, n)
		case 1:
			proxy.Reset()
		case 2:
			proxy.DropReplies(1+random.IntN(20), relay.ThenReset, relay.Commands("evalsha", "eval"))
		case 3:
			proxy.BlackHole()
			err := rediscluster.Pause(ctx, time.Duration(random.IntN(100))*time.Millisecond)
			proxy.Restore()
			if err != nil {
				return err
			}
		}
		if err := rediscluster.Pause(ctx, time.Duration(random.IntN(300))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// flushScripts flushes those of a node that is there.
func flushScripts(ctx context.Context, n *rediscluster.Node) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = do(ctx, n, "SCRIPT", "FLUSH")
}
