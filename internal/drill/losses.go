package drill

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// lostForGood loses a shard together with its only replica: it comes back with
// nothing.
func lostForGood(ctx context.Context, f *fault) error {
	replica, err := f.replica(ctx)
	if err != nil {
		return err
	}
	gone := f.expose(f.target, 0)
	defer gone()
	if err := inTurn(ctx, replica.Kill, f.primary().Kill); err != nil {
		return err
	}
	gone()
	if err := rediscluster.Pause(ctx, 2*time.Second); err != nil {
		return err
	}
	// The primary first: else the replica, which has nothing either, replaces it.
	return inTurn(ctx, f.primary().Restart, replica.Restart, f.cluster.Wait)
}

// replacedAll replaces every node by one that wasn't there before, a replica and
// then the primary of each shard: it joins, gets all that there is, and takes the
// place of one that the cluster forgets. In the end nobody is left whom the
// limiters were told of.
func replacedAll(ctx context.Context, f *fault) error {
	for f.target = range f.shards {
		for _, replace := range []func(context.Context, *fault) error{replacedReplica, replacedPrimary} {
			if err := replace(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func replacedReplica(ctx context.Context, f *fault) error {
	old, err := f.replica(ctx)
	if err != nil {
		return err
	}
	if _, err := f.cluster.AddReplica(ctx, f.primary()); err != nil {
		return err
	}
	return f.cluster.Remove(ctx, old)
}

func replacedPrimary(ctx context.Context, f *fault) error {
	old := f.primary()
	next, err := f.cluster.AddReplica(ctx, old)
	if err != nil {
		return err
	}
	if err := f.cluster.Failover(ctx, next); err != nil {
		return err
	}
	f.hit().primary = next
	return f.cluster.Remove(ctx, old)
}

// restartedAll restarts every node: it goes, and comes back with nothing, while
// another of its shard has all.
func restartedAll(ctx context.Context, f *fault) error {
	for f.target = range f.shards {
		replica, err := f.replica(ctx)
		if err != nil {
			return err
		}
		if err := inTurn(ctx, replica.Restart, f.cluster.Wait); err != nil {
			return err
		}
		if err := failedOver(ctx, f); err != nil {
			return err
		}
		old, err := f.replica(ctx)
		if err != nil {
			return err
		}
		if err := inTurn(ctx, old.Restart, f.cluster.Wait); err != nil {
			return err
		}
	}
	return nil
}

// allGone kills all nodes, and starts them again: primaries first, as a replica
// would take the place of one that it finds away.
func allGone(ctx context.Context, f *fault) error {
	var gone []func()
	var primaries, replicas []*rediscluster.Node
	for i, s := range f.shards {
		gone = append(gone, f.expose(i, 0))
		r, err := f.onlyReplica(ctx, s.primary)
		if err != nil {
			return err
		}
		primaries, replicas = append(primaries, s.primary), append(replicas, r)
	}
	err := each(ctx, append(replicas, primaries...), (*rediscluster.Node).Kill)
	for _, end := range gone {
		end()
	}
	if err != nil {
		return err
	}
	if err := rediscluster.Pause(ctx, time.Second); err != nil {
		return err
	}
	return errors.Join(
		each(ctx, primaries, (*rediscluster.Node).Restart),
		each(ctx, replicas, (*rediscluster.Node).Restart),
		f.cluster.Wait(ctx),
	)
}

func each(ctx context.Context, nodes []*rediscluster.Node, verb func(*rediscluster.Node, context.Context) error) error {
	for _, n := range nodes {
		if err := verb(n, ctx); err != nil {
			return err
		}
	}
	return nil
}
