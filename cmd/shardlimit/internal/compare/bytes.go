package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit/cluster"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/keys"
	"github.com/shardlimit/shardlimit/scripts"
)

// keySizes returns the bytes that a server, started for this, takes for a
// subject's key under each algorithm, once all of the limit is used.
func keySizes(ctx context.Context, opts rediscluster.Options) (sizes []int64, err error) {
	server, err := rediscluster.StartSingle(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := cluster.New(server.Client(), cluster.Options{})
	if err != nil {
		return nil, err
	}
	for _, a := range algorithms {
		call := scripts.Call{
			Plan:  scripts.NewPlan(limitOf(a)),
			Key:   keys.For("rl", "user-12345", "api", "abcd"),
			Cost:  limitOf(a).Capacity(),
			Count: 1,
			Nonce: 1,
		}
		if _, err := client.Do(ctx, &call); err != nil {
			return nil, err
		}
		size, err := onlyKeySize(ctx, server)
		if err != nil {
			return nil, fmt.Errorf("size of a %v key: %w", a, err)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// onlyKeySize returns the size of the server's only key, and removes it.
func onlyKeySize(ctx context.Context, server *rediscluster.Single) (int64, error) {
	key, err := server.Client().RandomKey(ctx).Result()
	if err != nil {
		return 0, err
	}
	size, err := server.Client().MemoryUsage(ctx, key, 0).Result() // 0 samples: all of them
	if err != nil {
		return 0, err
	}
	return size, server.Client().FlushAll(ctx).Err()
}

// isAbsent reports whether err says that no server is installed.
func isAbsent(err error) bool { return errors.Is(err, rediscluster.ErrNoServer) }
