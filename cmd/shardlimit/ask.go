package main

import (
	"context"
	"errors"
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

// within asks a limiter of the Redis. A failure mode's answer is an error.
func (a *asked) within(ask question) (answer.Decision, error) {
	policy, err := a.policy()
	if err != nil {
		return answer.Decision{}, err
	}
	client, err := a.Client()
	if err != nil {
		return answer.Decision{}, err
	}
	var r shardlimit.Result
	limiter, err := shardlimit.New(client, shardlimit.Config{Prefix: a.Prefix, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		r, err = ask(limiter, policy)
		err = errors.Join(err, r.Failure, limiter.Close())
	}
	if err := errors.Join(err, client.Close()); err != nil {
		return answer.Decision{}, err
	}
	return answer.Of(policy, r), nil
}

// question is what a limiter is asked.
type question func(*shardlimit.Limiter, *shardlimit.Policy) (shardlimit.Result, error)

// answer asks and prints what is decided, and returns how the program ends.
func (a *asked) answer(w io.Writer, ask question) error {
	d, err := a.within(ask)
	if err != nil {
		return err
	}
	write := d.Text
	if a.JSON {
		write = d.JSON
	}
	if err := write(w); err != nil {
		return err
	}
	if !d.Allowed {
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
	return c.answer(stdout, func(l *shardlimit.Limiter, p *shardlimit.Policy) (shardlimit.Result, error) {
		return l.AllowN(ctx, p, c.Subject, c.Cost)
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
	return c.answer(stdout, func(l *shardlimit.Limiter, p *shardlimit.Policy) (shardlimit.Result, error) {
		return l.Peek(ctx, p, c.Subject)
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
	return c.answer(stdout, func(l *shardlimit.Limiter, p *shardlimit.Policy) (shardlimit.Result, error) {
		if err := l.Reset(ctx, p, c.Subject); err != nil {
			return shardlimit.Result{}, err
		}
		return l.Peek(ctx, p, c.Subject)
	})
}
