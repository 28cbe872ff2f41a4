package drill

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/relay"
)

// Scenario is one fault.
type Scenario struct {
	Name    string
	Does    string // what happens
	Promise string // what is promised meanwhile, beside what always is: nothing charged twice

	// What is to be seen of it at the shard that is hit, or the fault was none.
	Outage  bool   // calls that the failure modes answer
	Refusal string // an error reply of this code, after which a call never ran
	Fault   string // an error reply of this code, which is the caller's

	tolerates  []string // codes of errors that may be seen besides
	everywhere bool     // it hits all shards
	wipes      bool     // all that was admitted is lost with the data
	renews     bool     // no node is left that was there before
	proxied    bool     // clients reach the nodes through proxies
	act        func(context.Context, *fault) error
}

// Control is no fault: what the others are compared with.
func Control() Scenario {
	return Scenario{
		Name: "control", Does: "nothing", Promise: "over 0, under 0, no errors",
		act: func(ctx context.Context, _ *fault) error { return rediscluster.Pause(ctx, 3*time.Second) },
	}
}

// How long things last that end by themselves never.
const (
	stop  = 3 * time.Second
	pause = 700 * time.Millisecond // less than nodeTimeout: nobody is replaced
)

// Scenarios returns all faults.
func Scenarios() []Scenario {
	const replaced = "other shards untouched; over at most what the replica had not received"
	const waits = "other shards untouched; over 0, each call charged once at most"
	const refuses = "the mode's answer, of a call that never ran; over 0"
	return []Scenario{
		{Name: "killed", Does: "kill -9 of a primary; a node again later", Promise: replaced, Outage: true, act: killed},
		{Name: "stopped 350 ms", Does: "SIGSTOP of a primary for 350 ms", Promise: waits, Outage: true, act: stoppedShortly},
		{Name: "stopped 3 s", Does: "SIGSTOP of a primary for 3 s", Promise: replaced, Outage: true, act: stopped},
		{Name: "cut from clients", Does: "a primary, for 1.5 s: its peers hear it", Promise: waits, Outage: true, act: cutFromClients},
		{Name: "cut from peers", Does: "a primary, for 4 s: clients reach it", Promise: "over at most what it admitted since the cut", Outage: true, act: cutFromPeers},
		{Name: "cut from both", Does: "a primary, for 4 s", Promise: replaced, Outage: true, act: cutFromBoth},
		{Name: "failover", Does: "CLUSTER FAILOVER", Promise: "over 0", act: failedOver},
		{Name: "without the script", Does: "FAILOVER TAKEOVER by a replica that has no scripts", Promise: "over at most what the replica had not received", act: takenOver},
		{Name: "resets", Does: "all connections to a primary reset, 20 times in 1 s", Promise: waits, Outage: true, proxied: true, act: reset},
		{Name: "replies dropped", Does: "each reply of a primary for 1 s lost", Promise: waits, Outage: true, proxied: true, act: repliesDropped},
		{Name: "DEBUG SLEEP", Does: "a primary sleeps 0.7 s", Promise: waits, Outage: true, act: asleep},
		{Name: "CLIENT PAUSE", Does: "a primary answers no client for 0.7 s", Promise: waits, Outage: true, act: paused},
		{Name: "BUSY", Does: "a script runs at a primary for 0.7 s", Promise: refuses, Outage: true, Refusal: "BUSY", act: busy},
		{Name: "OOM", Does: "a primary is out of memory for 1 s", Promise: refuses, Outage: true, Refusal: "OOM", act: setting("maxmemory", "1", "0")},
		{
			Name: "NOREPLICAS", Does: "a primary wants more replicas, for 1 s", Promise: refuses, Outage: true, Refusal: "NOREPLICAS",
			act: setting("min-replicas-to-write", "9", "0"),
		},
		{Name: "NOPERM", Does: "scripts are forbidden at a primary for 1 s", Promise: "an error whatever the mode; over 0", Fault: "NOPERM", act: forbidden},
		{Name: "WRONGTYPE", Does: "some keys of a shard are lists for 1 s", Promise: "an error whatever the mode; over 0", Fault: "WRONGTYPE", act: wrongType},
		{Name: "no replica", Does: "a shard without replica lost for 2 s, and its data", Promise: "other shards untouched; over at most all that it admitted", Outage: true, wipes: true, act: lostForGood},
		{Name: "restarted one by one", Does: "each node restarted empty, primaries after CLUSTER FAILOVER", Promise: "over 0", everywhere: true, act: restartedAll},
		{
			Name: "replaced one by one", Does: "a new node takes the place of each, which the cluster forgets", Promise: "over 0",
			everywhere: true, renews: true, act: replacedAll,
		},
		{Name: "all gone", Does: "all nodes killed for 1 s, and all data", Promise: "over at most all that was admitted", Outage: true, everywhere: true, wipes: true, act: allGone},
	}
}

func killed(ctx context.Context, f *fault) error {
	if err := f.lose(ctx, f.primary().Kill); err != nil {
		return err
	}
	old, err := f.succeed(ctx)
	if err != nil {
		return err
	}
	return inTurn(ctx, f.cluster.Wait, old.Restart, f.cluster.Wait)
}

func stoppedShortly(ctx context.Context, f *fault) error {
	return between(ctx, 350*time.Millisecond, f.primary().Hang, f.primary().Resume)
}

// stopped exposes the old primary a second time: between its waking up and its
// hearing that it is one no more.
func stopped(ctx context.Context, f *fault) error {
	began := time.Now()
	if err := f.lose(ctx, f.primary().Hang); err != nil {
		return err
	}
	old, err := f.succeed(ctx)
	if err != nil {
		return errors.Join(err, old.Resume(ctx))
	}
	if err := rediscluster.Pause(ctx, stop-time.Since(began)); err != nil {
		return err
	}
	gone := f.expose(f.target, f.load.now())
	defer gone()
	if err := inTurn(ctx, old.Resume, following(old)); err != nil {
		return err
	}
	gone()
	return f.cluster.Wait(ctx)
}

func following(n *rediscluster.Node) func(context.Context) error {
	return func(ctx context.Context) error { return givenUp(ctx, n) }
}

// cut returns the verb that cuts a node off.
func cut(n *rediscluster.Node, from rediscluster.Side) func(context.Context) error {
	return func(ctx context.Context) error { return n.Cut(ctx, from) }
}

func cutFromClients(ctx context.Context, f *fault) error {
	err := between(ctx, 1500*time.Millisecond, cut(f.primary(), rediscluster.Clients), f.primary().Heal)
	return errors.Join(err, f.cluster.Wait(ctx))
}

const cutOff = 4 * time.Second

func cutFromBoth(ctx context.Context, f *fault) error {
	old, end := f.primary(), time.Now().Add(cutOff)
	defer heal(ctx, old)
	if err := f.lose(ctx, cut(old, rediscluster.Everybody)); err != nil {
		return err
	}
	if _, err := f.succeed(ctx); err != nil {
		return err
	}
	return inTurn(ctx, until(end), old.Heal, f.cluster.Wait)
}

func cutFromPeers(ctx context.Context, f *fault) error {
	old, end := f.primary(), time.Now().Add(cutOff)
	defer heal(ctx, old)
	gone := f.expose(f.target, f.load.now())
	defer gone()
	if err := inTurn(ctx, f.inStep, cut(old, rediscluster.Peers)); err != nil {
		return err
	}
	if _, err := f.succeed(ctx); err != nil {
		return err
	}
	if err := givenUp(ctx, old); err != nil {
		return err
	}
	gone()
	return inTurn(ctx, until(end), old.Heal, f.cluster.Wait)
}

// heal undoes a cut that something left behind; of one that is undone it does
// nothing.
func heal(ctx context.Context, n *rediscluster.Node) { _ = n.Heal(context.WithoutCancel(ctx)) }

func until(end time.Time) func(context.Context) error {
	return func(ctx context.Context) error { return rediscluster.Pause(ctx, time.Until(end)) }
}

func (f *fault) inStep(ctx context.Context) error { return f.cluster.InStep(ctx, f.primary()) }

func failedOver(ctx context.Context, f *fault) error {
	replica, err := f.replica(ctx)
	if err != nil {
		return err
	}
	if err := do(ctx, replica, "CLUSTER", "FAILOVER"); err != nil {
		return err
	}
	if _, err := f.succeed(ctx); err != nil {
		return err
	}
	return f.cluster.Wait(ctx)
}

// takenOver has a replica take its primary's place without asking: the primary
// goes on until it hears of it.
func takenOver(ctx context.Context, f *fault) error {
	replica, err := f.replica(ctx)
	if err != nil {
		return err
	}
	if err := f.cluster.FlushScripts(ctx, replica); err != nil {
		return err
	}
	gone := f.expose(f.target, f.load.now())
	defer gone()
	if err := f.inStep(ctx); err != nil {
		return err
	}
	if err := do(ctx, replica, "CLUSTER", "FAILOVER", "TAKEOVER"); err != nil {
		return err
	}
	old, err := f.succeed(ctx)
	if err != nil {
		return err
	}
	if err := givenUp(ctx, old); err != nil {
		return err
	}
	gone()
	return f.cluster.Wait(ctx)
}

func reset(ctx context.Context, f *fault) error {
	for range 20 {
		f.proxy().Reset()
		if err := rediscluster.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func repliesDropped(ctx context.Context, f *fault) error {
	drop := func(n int) func(context.Context) error {
		return func(context.Context) error {
			f.proxy().DropReplies(n, relay.ThenClose, relay.Commands("evalsha", "eval"))
			return nil
		}
	}
	return between(ctx, time.Second, drop(1<<30), drop(0))
}

func asleep(ctx context.Context, f *fault) error {
	return do(ctx, f.primary(), "DEBUG", "SLEEP", pause.Seconds())
}

func paused(ctx context.Context, f *fault) error {
	if err := do(ctx, f.primary(), "CLIENT", "PAUSE", pause.Milliseconds(), "ALL"); err != nil {
		return err
	}
	return rediscluster.Pause(ctx, pause)
}
