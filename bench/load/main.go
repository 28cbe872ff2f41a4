// Command load prints what a daemon answers: POST /v1/check on one hot key beside
// 10,000 keys, and beside /healthz, which decides nothing, in interleaved rounds
// on one cluster:
//
//	go run ./load --daemon=<the program, built of cmd/shardlimit>
//
// The daemon is a process of its own. What asks it shares the machine with it and
// with Redis.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// options are what the flags say.
type options struct {
	daemon, server      string
	connections, rounds int
	span                time.Duration
	keys, batch         int
}

func main() {
	var o options
	flag.StringVar(&o.daemon, "daemon", "", "the shardlimit program to run")
	flag.StringVar(&o.server, "server", "", "redis-server to run: a binary, or a folder that holds one (default: the installed one)")
	flag.IntVar(&o.connections, "connections", 64, "connections, each with one request at a time")
	flag.IntVar(&o.rounds, "rounds", 5, "interleaved rounds")
	flag.DurationVar(&o.span, "for", 3*time.Second, "how long each measures in a round")
	flag.IntVar(&o.keys, "keys", 10_000, "over how many keys, beside one")
	flag.IntVar(&o.batch, "batch", 16, "checks in a request that has several")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	redis.SetLogger(quiet{})
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// quiet drops the lines that the client prints by itself.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// policy is what the daemon limits to: more than it is asked for, so that every
// request is charged.
const policy = "load=1000000/s burst 1000000"

func run(ctx context.Context, o *options) (err error) {
	if o.daemon == "" {
		return errors.New("--daemon: want the program to run, as make load builds it")
	}
	servers, err := rediscluster.Start(ctx, rediscluster.Options{Server: o.server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	d, err := start(ctx, o.daemon, "--redis="+strings.Join(servers.Addrs(), ","), "--policy="+policy, "--timeout=10s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()

	kinds := o.kinds()
	results, err := measure(ctx, o, d, servers, kinds)
	if err != nil {
		return err
	}
	fmt.Printf("%v, 3 primaries, 1 daemon, %d connections; medians of %d rounds of %v\n\n", servers.Version(), o.connections, o.rounds, o.span)
	return show(os.Stdout, kinds, results)
}

// kind is one kind of load.
type kind struct {
	name     string
	requests []request // of which each connection sends any, one after the other
	size     int       // decisions in each; 0: it asks for none
	beside   int       // the kind whose decisions a second it is measured against, by its place; its own: none
}

// kinds returns what is sent, in turn.
func (o *options) kinds() []kind {
	many := fmt.Sprintf("%d keys", o.keys)
	batch := fmt.Sprintf("%d checks a request", o.batch)
	return []kind{
		{"no decision: /healthz", []request{health()}, 0, 0},
		{"one check a request, hot key", checks(1), 1, 2},
		{"one check a request, " + many, checks(o.keys), 1, 2},
		{batch + ", hot key", batches(1, o.batch), o.batch, 4},
		{batch + ", " + many, batches(o.keys, o.batch), o.batch, 4},
	}
}

// measure returns, for each kind, a result for each round.
func measure(ctx context.Context, o *options, d *daemon, servers *rediscluster.Cluster, kinds []kind) ([][]*result, error) {
	results := make([][]*result, len(kinds))
	for round := range o.rounds + 1 {
		for i, k := range kinds {
			r, err := o.once(ctx, d, servers, k)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
			if round > 0 { // the first warms up
				results[i] = append(results[i], r)
			}
		}
	}
	return results, nil
}

// once measures a kind, and the CPU time that it takes.
func (o *options) once(ctx context.Context, d *daemon, servers *rediscluster.Cluster, k kind) (*result, error) {
	before, err := used(ctx, d, servers)
	if err != nil {
		return nil, err
	}
	r, err := drive(ctx, d.address, k.requests, o.connections, o.span)
	if err != nil {
		return nil, err
	}
	after, err := used(ctx, d, servers)
	r.cpu = after.minus(before)
	return r, err
}
