package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/table"
	"github.com/shardlimit/shardlimit/internal/crowd"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// share is instances that share one key.
type share struct {
	rate      int64
	demand    float64 // times the rate
	processes int
}

// outcome is what came of them.
type outcome struct {
	asked, passed, fresh, over, calls int64
	took                              time.Duration
}

// shareAll prints a line for each limit, demand and number of processes. The
// machine may not be able to ask as much as it should: what it did is printed, and
// judged.
func shareAll(ctx context.Context, servers *rediscluster.Cluster, span time.Duration) error {
	t := table.New("limit", "demand", "asked/s", "processes", "over", "under", "Redis calls a decision")
	all := shares()
	for i, s := range all {
		fmt.Fprintf(os.Stderr, "%2d of %d: %d/s, %.1f times that, %d processes\n", i+1, len(all), s.rate, s.demand, s.processes)
		o, err := s.run(ctx, servers, span)
		if err != nil {
			return err
		}
		t.Addf("%d/s\t%.1f x\t%.0f\t%d\t%d\t%.2f %%\t%.5f", s.rate, s.demand, float64(o.asked)/o.took.Seconds(), s.processes,
			o.over, 100*(1-float64(o.passed)/float64(o.fresh)), float64(o.calls)/float64(o.asked))
	}
	return t.Print(os.Stdout)
}

// shares returns what is played, in turn.
func shares() (all []share) {
	for _, rate := range []int64{1_000, 10_000, 1_000_000} {
		for _, demand := range []float64{0.5, 1, 3} {
			for _, processes := range []int{1, 4, 10} {
				all = append(all, share{rate, demand, processes})
			}
		}
	}
	return all
}

func (s share) run(ctx context.Context, servers *rediscluster.Cluster, span time.Duration) (o outcome, err error) {
	dir, err := os.MkdirTemp("", "hotkey-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	order := crowd.Order{
		Addrs: servers.Addrs(), Prefix: fmt.Sprintf("share-%d-%.1f-%d", s.rate, s.demand, s.processes), Timeout: patience,
		Start: time.Now().Add(time.Second / 2), For: span, // once all are there
		Keys: []crowd.Key{{
			Policy: "api", Subject: "hot", Limit: shardlimit.PerSecond(s.rate), Rate: float64(s.rate) * s.demand / float64(s.processes),
		}},
	}
	before, err := scriptCalls(ctx, servers)
	if err != nil {
		return o, err
	}
	files, err := s.play(ctx, order, dir)
	if err != nil {
		return o, err
	}
	after, err := scriptCalls(ctx, servers)
	if err != nil {
		return o, err
	}
	accounts, err := crowd.Read(order, files...)
	if err != nil {
		return o, err
	}
	a := &accounts[0]
	return outcome{asked: a.Asked(), passed: a.Passed(), fresh: a.Fresh(), over: a.Over(), calls: after - before, took: span}, nil
}

// play starts the instances and waits for them. It returns the files that they
// wrote.
func (s share) play(ctx context.Context, order crowd.Order, dir string) ([]string, error) {
	var files []string
	var processes []*crowd.Process
	var faults error
	for i := range s.processes {
		order.Log, order.Seed = filepath.Join(dir, strconv.Itoa(i)), uint64(i)
		p, err := crowd.Start(ctx, order)
		if err != nil {
			faults = err
			break
		}
		files, processes = append(files, order.Log), append(processes, p)
	}
	for _, p := range processes {
		r, err := p.Wait()
		faults = errors.Join(faults, err)
		if r.Counters.Errors > 0 {
			faults = errors.Join(faults, fmt.Errorf("%d errors: %v", r.Counters.Errors, r.Errors))
		}
	}
	return files, faults
}

// scriptCalls returns how many scripts the nodes have run.
func scriptCalls(ctx context.Context, servers *rediscluster.Cluster) (calls int64, err error) {
	for _, n := range servers.Nodes() {
		info, err := n.Client().Info(ctx, "commandstats").Result()
		if err != nil {
			return 0, err
		}
		for _, found := range scriptStats.FindAllStringSubmatch(info, -1) {
			n, err := strconv.ParseInt(found[1], 10, 64)
			if err != nil {
				return 0, err
			}
			calls += n
		}
	}
	return calls, nil
}

var scriptStats = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)
