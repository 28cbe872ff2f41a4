// Command faults breaks a cluster in every way that there is a promise for, under
// load, and prints what became of the calls beside a control without a fault:
//
//	go run ./faults
//
// What must be exact decides its exit status; what depends on the machine is
// judged in the table alone. docs/faults.md says how to read it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/drill"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

func main() {
	o := drill.Options{Calm: time.Second}
	flag.IntVar(&o.Rate, "rate", 8000, "calls a second")
	flag.IntVar(&o.Subjects, "keys", 1000, "over how many keys")
	flag.IntVar(&o.Limiters, "limiters", 3, "how many limiters of this process ask")
	flag.DurationVar(&o.Timeout, "timeout", 50*time.Millisecond, "of a decision")
	only := flag.String("only", "", "those whose names match this regular expression")
	inJSON := flag.Bool("json", false, "print JSON")
	server := flag.String("server", "", "redis-server to run: a binary, or a folder that holds one (default: the installed one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	redis.SetLogger(quiet{})

	show := asTable
	if *inJSON {
		show = asJSON
	}
	err := run(ctx, *server, *only, o, show)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// quiet drops the lines that the client prints by itself for each dial that
// fails.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// errBroken says that a promise was broken that holds on any machine.
var errBroken = errors.New("a promise was broken")

func run(ctx context.Context, server, only string, o drill.Options, show func(io.Writer, *result) error) (err error) {
	scenarios, measures, err := choose(only)
	if err != nil {
		return err
	}
	c, err := rediscluster.Start(ctx, drill.Servers(server))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()

	r := &result{Servers: c.Version().String(), Options: o}
	if err := r.play(ctx, c, scenarios); err != nil {
		return err
	}
	if err := r.playAlone(ctx, c, measures); err != nil {
		return err
	}
	if err := show(os.Stdout, r); err != nil {
		return err
	}
	if r.broken() {
		return errBroken
	}
	return nil
}

// choose returns the scenarios to play, and what is measured by one caller.
func choose(only string) (scenarios []drill.Scenario, measures []measure, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range drill.Scenarios() {
		if match.MatchString(s.Name) {
			scenarios = append(scenarios, s)
		}
	}
	for _, m := range byOne {
		if match.MatchString(m.name) {
			measures = append(measures, m)
		}
	}
	if len(scenarios)+len(measures) == 0 {
		return nil, nil, fmt.Errorf("--only=%s: nothing matches", only)
	}
	return scenarios, measures, nil
}

// result is all that was played.
type result struct {
	Servers string          `json:"servers"`
	Options drill.Options   `json:"options"`
	Control drill.Latency   `json:"control"`
	Reports []*drill.Report `json:"scenarios"`
	Bounds  [][]bound       `json:"bounds"` // of each report
	Alone   []bound         `json:"alone"`
}

// play plays the control before and after the others, as a machine may change.
func (r *result) play(ctx context.Context, c *rediscluster.Cluster, scenarios []drill.Scenario) error {
	all := append([]drill.Scenario{drill.Control()}, scenarios...)
	all = append(all, drill.Control())
	for i, s := range all {
		began := time.Now()
		report, err := drill.Run(ctx, c, s, r.Options)
		if errors.Is(err, rediscluster.ErrCannotCut) {
			fmt.Fprintf(os.Stderr, "%2d of %d, left out: %v\n", i+1, len(all), err)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%2d of %d, %5.1f s: %s\n", i+1, len(all), time.Since(began).Seconds(), s.Name)
		r.Reports = append(r.Reports, report)
	}
	r.Control = r.Reports[0].All.Merge(r.Reports[len(r.Reports)-1].All)
	for _, report := range r.Reports {
		r.Bounds = append(r.Bounds, judge(report, r.Control, r.Options))
	}
	return nil
}

func (r *result) broken() bool {
	for _, report := range r.Reports {
		if len(report.Broken) > 0 {
			return true
		}
	}
	return false
}

// asJSON writes all of the result.
func asJSON(w io.Writer, r *result) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}
