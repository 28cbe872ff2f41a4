// Command hotkey prints what the local tier does for one hot key, on a cluster of
// its own:
//
//	go run ./hotkey
//
// First, instances in processes of their own share a key, by limit, demand and
// number: what passed beyond the limit, what passed less than a store that lends
// nothing would let pass of the same requests, and how many calls Redis had for
// each decision. Then, 64 callers of one process ask for one key, beside the same
// script sent by Script.Run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/shardlimit/shardlimit/internal/crowd"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

func main() {
	crowd.Main() // does not return in a process that is an instance
	span := flag.Duration("for", 10*time.Second, "how long instances share a key")
	rounds := flag.Int("rounds", 5, "interleaved rounds of 64 callers")
	turn := flag.Duration("turn", time.Second, "how long each measures in a round")
	only := flag.String("only", "", "shared: instances alone; alone: the callers alone")
	server := flag.String("server", "", "redis-server to run: a binary, or a folder that holds one (default: the installed one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *only, *span, *turn, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "hotkey:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, only string, span, turn time.Duration, rounds int) (err error) {
	servers, err := rediscluster.Start(ctx, rediscluster.Options{Server: server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	if only != "alone" {
		if err := shareAll(ctx, servers, span); err != nil {
			return err
		}
	}
	if only != "shared" {
		return callAll(ctx, servers, turn, rounds)
	}
	return nil
}
