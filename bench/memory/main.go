// Command memory prints how many bytes of Redis one subject takes, for each
// algorithm and for other limiters, measured in one run on one cluster:
//
//	go run ./memory
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/table"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

func main() {
	subjects := flag.Int("subjects", 10_000, "how many subjects share the memory")
	server := flag.String("server", "", "redis-server to run: a binary, or a folder that holds one (default: the installed one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *subjects); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string, subjects int) (err error) {
	cluster, err := rediscluster.Start(ctx, rediscluster.Options{Server: server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	rdb := redis.NewClusterClient(cluster.ClientOptions())
	defer func() { err = errors.Join(err, rdb.Close()) }()

	takers, err := takers(rdb)
	if err != nil {
		return err
	}
	sizes := table.New("limiter", "bytes a subject")
	for i, t := range takers {
		fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(takers), t.name)
		bytes, err := measure(ctx, rdb, t, subjects)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		sizes.Addf("%s\t%.0f", t.name, bytes)
	}
	fmt.Printf("%v, %d subjects\n\n", cluster.Version(), subjects)
	return sizes.Print(os.Stdout)
}

// taker charges one unit to a subject.
type taker struct {
	name string
	take func(ctx context.Context, subject string) error
}

// takers returns shardlimit's algorithms, then its peers, all with 100 units an
// hour, so that no key ends meanwhile, and a policy of three bytes.
func takers(rdb *redis.ClusterClient) ([]taker, error) {
	l, err := shardlimit.New(rdb, shardlimit.Config{Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	var all []taker
	for _, a := range []shardlimit.Algorithm{
		shardlimit.TokenBucket, shardlimit.GCRA, shardlimit.SlidingWindow, shardlimit.SlidingLog, shardlimit.FixedWindow,
	} {
		policy, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(100).WithAlgorithm(a)},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, taker{"shardlimit " + a.String(), func(ctx context.Context, subject string) error {
			r, err := l.Allow(ctx, policy, subject)
			return errors.Join(err, r.Failure)
		}})
	}
	rate := redis_rate.NewLimiter(rdb)
	all = append(all, taker{"redis_rate v10", func(ctx context.Context, subject string) error {
		_, err := rate.Allow(ctx, "api:"+subject, redis_rate.PerHour(100))
		return err
	}})
	store, err := ulule.NewStoreWithOptions(rdb, limiter.StoreOptions{Prefix: "api"})
	if err != nil {
		return nil, err
	}
	counter := limiter.New(store, limiter.Rate{Period: time.Hour, Limit: 100})
	return append(all, taker{"ulule/limiter v3", func(ctx context.Context, subject string) error {
		_, err := counter.Get(ctx, subject)
		return err
	}}), nil
}

// measure returns the bytes that each of the subjects adds to used_memory.
func measure(ctx context.Context, rdb *redis.ClusterClient, t taker, subjects int) (float64, error) {
	// Once around first: what a server keeps for good, it has from then on.
	if err := charge(ctx, t, subjects); err != nil {
		return 0, err
	}
	if err := flush(ctx, rdb); err != nil {
		return 0, err
	}
	empty, err := usedMemory(ctx, rdb)
	if err != nil {
		return 0, err
	}
	if err := charge(ctx, t, subjects); err != nil {
		return 0, err
	}
	full, err := usedMemory(ctx, rdb)
	return float64(full-empty) / float64(subjects), err
}

// charge takes one unit from each subject, eleven bytes long.
func charge(ctx context.Context, t taker, subjects int) error {
	for i := range subjects {
		if err := t.take(ctx, fmt.Sprintf("user:%06d", i)); err != nil {
			return err
		}
	}
	return nil
}

func flush(ctx context.Context, rdb *redis.ClusterClient) error {
	return rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return node.FlushAll(ctx).Err()
	})
}

// usedMemory returns the bytes in use on all primaries at rest: the least of
// several seconds, since buffers of connections and of the cluster's own
// messages come and go on top of what the keys take.
func usedMemory(ctx context.Context, rdb *redis.ClusterClient) (int64, error) {
	const readings = 20
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	least := int64(math.MaxInt64)
	for range readings {
		sum, err := sumMemory(ctx, rdb)
		if err != nil {
			return 0, err
		}
		least = min(least, sum)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return least, nil
}

func sumMemory(ctx context.Context, rdb *redis.ClusterClient) (int64, error) {
	sums := make(chan int64, 64)
	err := rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(info, "used_memory:")
		text, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseInt(text, 10, 64)
		sums <- n
		return err
	})
	close(sums)
	var sum int64
	for n := range sums {
		sum += n
	}
	return sum, err
}
