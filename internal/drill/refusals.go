package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// refusing is how long a server refuses what it is asked.
const refusing = time.Second

// setting returns what changes a setting of the primary for a while.
func setting(name, value, well string) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		set := func(value string) func(context.Context) error {
			return func(ctx context.Context) error { return do(ctx, f.primary(), "CONFIG", "SET", name, value) }
		}
		return between(ctx, refusing, set(value), set(well))
	}
}

// busy keeps the primary with a script that ends only when it is killed: from
// 1 ms on the server answers all with BUSY.
func busy(ctx context.Context, f *fault) error {
	n := f.primary()
	if err := do(ctx, n, "CONFIG", "SET", "lua-time-limit", 1); err != nil {
		return err
	}
	ended := make(chan error, 1)
	start := func(ctx context.Context) error {
		go func() { ended <- do(ctx, n, "EVAL", "while true do end", 0) }()
		return nil
	}
	kill := func(ctx context.Context) error { return do(ctx, n, "SCRIPT", "KILL") }
	err := between(ctx, pause, start, kill)
	if killed := <-ended; killed == nil {
		err = errors.Join(err, errors.New("the script ended by itself"))
	}
	return errors.Join(err, do(ctx, n, "CONFIG", "SET", "lua-time-limit", 5000))
}

func forbidden(ctx context.Context, f *fault) error {
	rule := func(rule string) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, f.primary(), "ACL", "SETUSER", "default", rule) }
	}
	return between(ctx, refusing, rule("-@scripting"), rule("+@scripting"))
}

// Keys that become lists, and what they were again: in one step, between two
// decisions. They may end in between, as any that nothing is used of.
const (
	intoList = `if redis.call('exists', KEYS[1]) == 1 then
  redis.call('rename', KEYS[1], KEYS[2])
  redis.call('rpush', KEYS[1], 'a list')
end`
	intoSelf = `if redis.call('type', KEYS[1]).ok == 'list' then redis.call('del', KEYS[1]) end
if redis.call('exists', KEYS[2]) == 1 then redis.call('rename', KEYS[2], KEYS[1]) end`
)

// wrongType makes lists of a few keys.
func wrongType(ctx context.Context, f *fault) error {
	const few = 5
	found, err := f.primary().Client().Keys(ctx, f.prefix+":*").Result()
	if err != nil {
		return err
	}
	found = found[:min(few, len(found))]
	all := func(script string) func(context.Context) error {
		return func(ctx context.Context) error { return rewrite(ctx, f.primary(), script, found) }
	}
	return between(ctx, refusing, all(intoList), all(intoSelf))
}

func rewrite(ctx context.Context, n *rediscluster.Node, script string, keys []string) error {
	for _, key := range keys {
		err := n.Client().Eval(ctx, script, []string{key, key + ":aside"}).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("%s at %s: %w", key, n.Addr(), err)
		}
	}
	return nil
}
