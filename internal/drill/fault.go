package drill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/ledger"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/relay"
)

// fault is a fault under way: what a scenario does it to, and what the account
// has to know of it.
type fault struct {
	*ground
	load   *load
	target int    // the shard that is hit
	prefix string // of the limiters' keys

	exposed  []exposure
	promoted time.Duration // when the target's replica took over; 0: it didn't
}

// exposure is a time in which what a shard admitted was at risk.
type exposure struct {
	shard       int
	from, until time.Duration
}

// covers reports whether what c was admitted may have been charged meanwhile: of
// a lease, when that was asked for.
func (e exposure) covers(c *call) bool {
	charged := c.at.Sent
	if c.result.Source == shardlimit.FromLease {
		charged -= hotkey.LeaseTime
	}
	return c.subject.shard == e.shard && c.at.Replied >= e.from && charged <= e.until
}

// hit returns the target.
func (f *fault) hit() *shard { return &f.shards[f.target] }

func (f *fault) primary() *rediscluster.Node { return f.hit().primary }

func (f *fault) replica(ctx context.Context) (*rediscluster.Node, error) {
	return f.onlyReplica(ctx, f.primary())
}

func (f *fault) proxy() *relay.Proxy { return f.proxies[f.primary().Addr()] }

// expose says that what a shard admits from now on is at risk, until the
// function that it returns is called for the first time.
func (f *fault) expose(shard int, from time.Duration) (end func()) {
	i := len(f.exposed)
	f.exposed = append(f.exposed, exposure{shard: shard, from: from, until: math.MaxInt64})
	return func() { f.exposed[i].until = min(f.exposed[i].until, f.load.now()) }
}

// lose takes the target's primary away, whose replica has all but what was
// admitted at the last.
func (f *fault) lose(ctx context.Context, how func(context.Context) error) error {
	gone := f.expose(f.target, f.load.now())
	defer gone()
	if err := f.cluster.InStep(ctx, f.primary()); err != nil {
		return err
	}
	return how(ctx)
}

// succeed waits until the target has another primary, and returns the one that
// it had.
func (f *fault) succeed(ctx context.Context) (old *rediscluster.Node, err error) {
	old = f.primary()
	next, err := f.cluster.Successor(ctx, f.hit().slot, old)
	if err != nil {
		return nil, err
	}
	f.promoted = f.load.now()
	f.hit().primary = next
	return old, nil
}

// reconcile takes in which shards failed over though nothing was done to them,
// as on a machine that stood still for longer than the nodes' timeout: all that
// they admitted so far is at risk. It returns how many did.
func (f *fault) reconcile(ctx context.Context) (replaced int, err error) {
	for i := range f.shards {
		owner, err := f.cluster.Owner(ctx, f.shards[i].slot)
		if err != nil {
			return replaced, err
		}
		if owner == f.shards[i].primary {
			continue
		}
		replaced++
		f.shards[i].primary = owner
		f.expose(i, 0)()
	}
	return replaced, nil
}

// givenUp waits until a primary that was replaced admits nothing any more: it
// follows, or knows that it is alone.
func givenUp(ctx context.Context, old *rediscluster.Node) error {
	return await(ctx, func() (bool, error) {
		role, err := old.Client().Info(ctx, "replication").Result()
		if err != nil {
			return false, err
		}
		state, err := old.Client().ClusterInfo(ctx).Result()
		return strings.Contains(role, "role:slave") || strings.Contains(state, "cluster_state:fail"), err
	})
}

// patience is how long anything is waited for here.
const patience = 90 * time.Second

// await asks until it is so.
func await(ctx context.Context, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		if err := rediscluster.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// do sends a node one command.
func do(ctx context.Context, n *rediscluster.Node, args ...any) error {
	if err := n.Client().Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("%v at %s: %w", args, n.Addr(), err)
	}
	return nil
}

// inTurn does one thing after the other, as long as they go well.
func inTurn(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// between does something, holds it for so long, and undoes it whatever happens.
func between(ctx context.Context, d time.Duration, do, undo func(context.Context) error) error {
	err := do(ctx)
	if err == nil {
		err = rediscluster.Pause(ctx, d)
	}
	return errors.Join(err, undo(context.WithoutCancel(ctx)))
}

// atRisk reports whether a call's charge was at risk.
func (f *fault) atRisk(c *call) bool {
	return slices.ContainsFunc(f.exposed, func(e exposure) bool { return e.covers(c) })
}

// outcome says what the ledger makes of the answer.
func (f *fault) outcome(c *call) ledger.Outcome {
	down := c.failure()
	switch {
	case down != nil && down.Unknown:
		return ledger.Unknown
	case down != nil, c.err != nil: // an error here is of configuration: refused
		return ledger.NeverRan
	case c.result.Source == shardlimit.FromDenial:
		return ledger.Known
	case !c.result.Allowed:
		return ledger.Denied
	case f.atRisk(c):
		return ledger.AtRisk
	default:
		return ledger.Admitted
	}
}
