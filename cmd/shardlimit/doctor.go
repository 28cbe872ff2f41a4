package main

import (
	"context"
	"fmt"
	"io"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/doctor"
)

// doctorCommand is "shardlimit doctor".
type doctorCommand struct {
	connect.Flags
	Prefix      string `default:"rl" help:"Begins the keys of the limiter."`
	LimiterUser string `placeholder:"NAME" help:"The user whose rights to look at; the one who asks, unless named."`
	Sample      int    `default:"100000" help:"Most keys to look at on each primary; 0: all."`
	Fix         bool   `help:"Give keys of the limiter that never end one day."`
	JSON        bool   `name:"json" help:"Print a JSON object."`
	Quiet       bool   `help:"Don't say on standard error what is being looked at."`
}

// Help is the long help.
func (doctorCommand) Help() string {
	return `Asks every node of a cluster what would hurt a limiter there, and says what to do about it. Without --fix it changes
nothing; it never runs KEYS, and looks at no more keys than --sample says.

The exit code is 0 if all is fine, 3 if the worst is a warning, 4 if something fails now, 1 if nothing could be read.`
}

// Validate is called by the parser.
func (c *doctorCommand) Validate() error {
	if len(c.Redis) == 0 {
		return connect.ErrNowhere
	}
	if c.Sample < 0 {
		return fmt.Errorf("--sample=%d: must not be negative", c.Sample)
	}
	return nil
}

// Run is called by the parser.
func (c *doctorCommand) Run(ctx context.Context, stdout io.Writer, stderr standardError) error {
	client, err := c.Options()
	if err != nil {
		return err
	}
	opts := doctor.Options{
		Client: client, Single: c.Single, Prefix: c.Prefix, User: c.LimiterUser, Sample: c.Sample, Fix: c.Fix,
	}
	if !c.Quiet {
		opts.Progress = func(what string) { complain(stderr, "%s ...", what) }
	}
	report, err := doctor.Look(ctx, opts)
	if err != nil {
		return err
	}
	if err := c.print(report, stdout); err != nil {
		return err
	}
	return exits[report.Worst()]
}

func (c *doctorCommand) print(r doctor.Report, w io.Writer) error {
	if c.JSON {
		return r.JSON(w)
	}
	return r.Text(w)
}

// exits are how the program ends after a report with this worst verdict.
var exits = map[doctor.Verdict]error{doctor.Warning: errWarning, doctor.Failure: errFailure}
