// Command transport prints what a decision costs beside the same script sent by
// go-redis's Script.Run, in interleaved rounds on one cluster:
//
//	go run ./transport
//
// Each figure is the median of the rounds' ratios, ours to Script.Run's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/table"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

func main() {
	rounds := flag.Int("rounds", 5, "interleaved rounds")
	span := flag.Duration("for", 2*time.Second, "how long each measures in a round")
	keys := flag.Int("keys", 10_000, "over how many keys")
	callers := counts{256, 16, 1}
	flag.Var(&callers, "goroutines", "how many decide at once, in turn")
	server := flag.String("server", "", "redis-server to run: a binary, or a folder that holds one (default: the installed one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, callers, *rounds, *span, *keys); err != nil {
		fmt.Fprintln(os.Stderr, "transport:", err)
		os.Exit(1)
	}
}

// counts is a flag of several numbers: "256,16,1".
type counts []int

// String returns the flag's text.
func (c *counts) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*c), " ", ","), "[]")
}

// Set reads the flag's text.
func (c *counts) Set(text string) error {
	*c = nil
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return fmt.Errorf("%q: want a number of goroutines", field)
		}
		*c = append(*c, n)
	}
	return nil
}

func run(ctx context.Context, server string, callers counts, rounds int, span time.Duration, keys int) (err error) {
	servers, err := rediscluster.Start(ctx, rediscluster.Options{Server: server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	ways, err := connect(servers, keys)
	if err != nil {
		return err
	}
	defer func() {
		for _, w := range ways {
			err = errors.Join(err, w.close())
		}
	}()

	fmt.Printf("%v, 3 primaries, %d keys, medians of %d rounds of %v\n", servers.Version(), keys, rounds, span)
	for _, goroutines := range callers {
		results, err := measure(ctx, servers, ways, goroutines, rounds, span, keys)
		if err != nil {
			return err
		}
		fmt.Printf("\ngoroutines: %d\n\n", goroutines)
		if err := show(ways, results); err != nil {
			return err
		}
	}
	return nil
}

// measure returns, for each way, a result for each round.
func measure(ctx context.Context, servers *rediscluster.Cluster, ways []way, goroutines, rounds int, span time.Duration, keys int) ([][]result, error) {
	results := make([][]result, len(ways))
	for round := range rounds + 1 {
		for i, w := range ways {
			r, err := drive(ctx, servers, w, goroutines, span, keys)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			if round > 0 { // the first warms up
				results[i] = append(results[i], r)
			}
		}
	}
	return results, nil
}

// show prints a line for each way, with its ratio to the first.
func show(ways []way, results [][]result) error {
	t := table.New("", "decisions/s", "", "server CPU", "", "allocations", "p50", "")
	for i, w := range ways {
		rs, base := results[i], results[0]
		p50, times := "", ""
		if median(rs, result.p50) > 0 {
			p50, times = fmt.Sprintf("%.1f µs", median(rs, result.p50)), fmt.Sprintf("%.2f x", ratio(rs, base, result.p50))
		}
		t.Addf("%s\t%.0f\t%.2f x\t%.2f µs\t%.2f x\t%.1f\t%s\t%s", w.name,
			median(rs, result.rate), ratio(rs, base, result.rate),
			median(rs, result.cpu), ratio(rs, base, result.cpu), median(rs, result.allocations), p50, times)
	}
	return t.Print(os.Stdout)
}
