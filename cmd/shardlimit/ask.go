package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/answer"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
)

// asked is whom "check", "inspect" and "reset" are about, and in which Redis.
type asked struct {
	connect.Flags
	Prefix  string             `default:"rl" help:"Begins the keys of the limiter."`
	Policy  string             `required:"" placeholder:"NAME" help:"The policy's name."`
	Limit   []shardlimit.Limit `required:"" sep:"none" placeholder:"LIMIT" help:"What the policy allows, as \"100/s burst 50\" or \"5/5m sliding_log\"; several may be given."`
	Subject string             `required:"" help:"Whom the limit holds for."`
	JSON    bool               `name:"json" help:"Print a JSON object."`
}

// patience is longer than a limiter's: one call waits, not a service.
const patience = 2 * time.Second

// policy returns the policy that is asked about. Where Redis can't answer there
// is no answer, so that none is made up.
func (a *asked) policy() (*shardlimit.Policy, error) {
	return shardlimit.NewPolicy(shardlimit.PolicyConfig{
		Name: a.Policy, Limits: a.Limit, OnFailure: shardlimit.FailClosed(), Timeout: patience,
	})
}

// within calls ask with a limiter of the Redis and the policy.
func (a *asked) within(ask func(*shardlimit.Limiter, *shardlimit.Policy) error) error {
	policy, fault := a.policy()
	client, err := a.Client()
	if err := errors.Join(fault, err); err != nil {
		return err
	}
	limiter, err := shardlimit.New(client, shardlimit.Config{Prefix: a.Prefix, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = errors.Join(ask(limiter, policy), limiter.Close())
	}
	return errors.Join(err, client.Close())
}

// print prints a decision, and returns how the program ends.
func (a *asked) print(w io.Writer, r shardlimit.Result, err error) error {
	if err = errors.Join(err, r.Failure); err != nil {
		return err
	}
	write := answer.Text
	if a.JSON {
		write = answer.JSON
	}
	if err := write(w, r); err != nil {
		return err
	}
	if !r.Allowed {
		return errDenied
	}
	return nil
}

// checkCommand is "shardlimit check".
type checkCommand struct {
	asked
	Cost int64 `default:"1" help:"Units to take."`
}

// Help is the long help.
func (checkCommand) Help() string {
	return `Decides about one request, and charges it, as a limiter with the same prefix and policy does.

The exit code is 0 if it is allowed, 3 if it is denied, 1 if there is no decision, as when Redis can't answer.`
}

// Run is called by the parser.
func (c *checkCommand) Run(ctx context.Context, stdout io.Writer) error {
	return c.within(func(l *shardlimit.Limiter, p *shardlimit.Policy) error {
		r, err := l.AllowN(ctx, p, c.Subject, c.Cost)
		return c.print(stdout, r, err)
	})
}

// inspectCommand is "shardlimit inspect".
type inspectCommand struct{ asked }

// Help is the long help.
func (inspectCommand) Help() string {
	return `Says what a check would, and charges nothing. The exit codes are those of check.`
}

// Run is called by the parser.
func (c *inspectCommand) Run(ctx context.Context, stdout io.Writer) error {
	return c.within(func(l *shardlimit.Limiter, p *shardlimit.Policy) error {
		r, err := l.Peek(ctx, p, c.Subject)
		return c.print(stdout, r, err)
	})
}

// resetCommand is "shardlimit reset".
type resetCommand struct{ asked }

// Help is the long help.
func (resetCommand) Help() string {
	return `Forgets what the subject has used under the policy, and says what is left now.`
}

// Run is called by the parser.
func (c *resetCommand) Run(ctx context.Context, stdout io.Writer) error {
	return c.within(func(l *shardlimit.Limiter, p *shardlimit.Policy) error {
		if err := l.Reset(ctx, p, c.Subject); err != nil {
			return fmt.Errorf("reset %q: %w", c.Subject, err)
		}
		r, err := l.Peek(ctx, p, c.Subject)
		return c.print(stdout, r, err)
	})
}
