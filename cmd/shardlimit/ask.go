package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/answer"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/remote"
)

// asked is whom "check", "inspect" and "reset" are about, and where: in a Redis
// or at a daemon, which has policies of its own.
type asked struct {
	connect.Flags
	Daemon  string             `placeholder:"URL" help:"Ask a running daemon instead of Redis: for check at its public listener, else at its admin's, with the token in $$SHARDLIMIT_ADMIN_TOKEN if it wants one."`
	Prefix  string             `default:"rl" help:"Begins the keys of the limiter."`
	Policy  string             `required:"" placeholder:"NAME" help:"The policy's name."`
	Limit   []shardlimit.Limit `sep:"none" placeholder:"LIMIT" help:"What the policy allows, as \"100/s burst 50\" or \"5/5m sliding_log\"; several may be given. A daemon knows."`
	Subject string             `required:"" help:"Whom the limit holds for."`
	JSON    bool               `name:"json" help:"Print a JSON object."`
}

// Validate is called by the parser.
func (a *asked) Validate() error {
	switch {
	case a.Daemon == "" && len(a.Limit) == 0:
		return errors.New("missing flags: --limit=LIMIT, or --daemon=URL")
	case a.Daemon != "" && len(a.Limit) > 0:
		return errors.New("--limit: a daemon's policies have their own")
	case a.Daemon == "" && len(a.Redis) == 0:
		return connect.ErrNowhere
	}
	return nil
}

// daemon returns the one to ask.
func (a *asked) daemon() *remote.Daemon {
	return &remote.Daemon{URL: a.Daemon, Token: os.Getenv("SHARDLIMIT_ADMIN_TOKEN")}
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

// print prints what was decided, and returns how the program ends.
func (a *asked) print(w io.Writer, d answer.Decision, err error) error {
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
	d, err := c.check(ctx)
	return c.print(stdout, d, err)
}

func (c *checkCommand) check(ctx context.Context) (answer.Decision, error) {
	if c.Daemon != "" {
		return c.daemon().Check(ctx, c.Policy, c.Subject, c.Cost)
	}
	return c.within(func(l *shardlimit.Limiter, p *shardlimit.Policy) (shardlimit.Result, error) {
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
	d, err := c.inspect(ctx)
	return c.print(stdout, d, err)
}

func (c *inspectCommand) inspect(ctx context.Context) (answer.Decision, error) {
	if c.Daemon != "" {
		return c.daemon().Inspect(ctx, c.Policy, c.Subject)
	}
	return c.within(func(l *shardlimit.Limiter, p *shardlimit.Policy) (shardlimit.Result, error) {
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
	d, err := c.reset(ctx)
	return c.print(stdout, d, err)
}

func (c *resetCommand) reset(ctx context.Context) (answer.Decision, error) {
	if c.Daemon != "" {
		if err := c.daemon().Reset(ctx, c.Policy, c.Subject); err != nil {
			return answer.Decision{}, err
		}
		return c.daemon().Inspect(ctx, c.Policy, c.Subject)
	}
	return c.within(func(l *shardlimit.Limiter, p *shardlimit.Policy) (shardlimit.Result, error) {
		if err := l.Reset(ctx, p, c.Subject); err != nil {
			return shardlimit.Result{}, err
		}
		return l.Peek(ctx, p, c.Subject)
	})
}
