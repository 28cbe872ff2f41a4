package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

// serveCommand is "shardlimit serve". Flags that are set go before the file.
type serveCommand struct {
	Config string   `xor:"rules" type:"path" placeholder:"FILE" env:"SHARDLIMIT_CONFIG" help:"The configuration. It is read again when it changes, and on SIGHUP."`
	Policy []string `xor:"rules" sep:"none" placeholder:"NAME=LIMIT" help:"A policy, where there is no file, as in api='100/s burst 200'. May be repeated; without any there is one, default=100/s."`

	Listen      *string        `placeholder:"ADDR" help:"Where to answer the API; :8080. Empty for nowhere."`
	Admin       *string        `placeholder:"ADDR" help:"Where to answer operators; 127.0.0.1:8081. Empty for nowhere. Others than loopback addresses need a token."`
	Envoy       *string        `placeholder:"ADDR" help:"Where to answer Envoy's rate limit service, over gRPC; nowhere."`
	EnvoyConfig string         `type:"path" placeholder:"PATH" help:"The limits that Envoy asks about, in the format of envoyproxy/ratelimit: a file, or a folder of them."`
	AdminToken  string         `name:"admin-token-file" type:"path" placeholder:"FILE" help:"Holds the token that operators show. Or it is in $$SHARDLIMIT_ADMIN_TOKEN."`
	ReadTimeout *time.Duration `placeholder:"TIME" help:"How long a client may take to send a request; 10s."`

	connect.Flags
	Prefix *string `placeholder:"TEXT" help:"Begins each key in Redis; rl."`

	Timeout *time.Duration `placeholder:"TIME" help:"How long a decision waits for Redis before the policy's failure mode decides; 50ms."`

	LogFormat  string        `enum:",text,json" default:"" placeholder:"FORMAT" help:"text or json; text."`
	LogLevel   string        `enum:",debug,info,warn,error" default:"" placeholder:"LEVEL" help:"debug, info, warn or error; info."`
	Receipts   int           `default:"100000" help:"How many charges are remembered, so that they can be refunded."`
	DrainDelay time.Duration `default:"0s" placeholder:"TIME" help:"How long to go on answering once told to stop, while /readyz says no: until load balancers have noticed; ${default}."`

	policies []*shardlimit.Policy // those of Policy
}

// Help is the long help.
func (serveCommand) Help() string {
	return `Answers over HTTP whether requests may go ahead: POST /v1/check for programs, GET /v1/authorize for nginx, Traefik and
Caddy; /v1/openapi.yaml describes it all. With --envoy it stands in for envoyproxy/ratelimit. Where Redis is away it starts all the same, is not ready, and recovers by
itself. SIGTERM and SIGINT end it in order. What is set by flags goes before what the file says.`
}

// Validate is called by the parser.
func (c *serveCommand) Validate() error {
	for _, node := range c.Redis {
		if !config.IsNode(node) {
			return errors.New("--redis: must be host:port, or a redis:// or rediss:// URL of a host and a port")
		}
	}
	for flag, address := range map[string]*string{"listen": c.Listen, "admin": c.Admin, "envoy": c.Envoy} {
		if address != nil && *address != "" && !config.IsAddress(*address) {
			return fmt.Errorf("--%s=%s: must be host:port or :port", flag, *address)
		}
	}
	for flag, time := range map[string]*time.Duration{"read-timeout": c.ReadTimeout, "timeout": c.Timeout} {
		if time != nil && *time <= 0 {
			return fmt.Errorf("--%s=%v: must be above 0", flag, *time)
		}
	}
	switch {
	case c.Prefix != nil && !config.IsPrefix(*c.Prefix):
		return fmt.Errorf("--prefix=%s: must be 1 to 64 of A-Z, a-z, 0-9, _, ., : and -", *c.Prefix)
	case c.DrainDelay < 0:
		return fmt.Errorf("--drain-delay=%v: must not be negative", c.DrainDelay)
	case c.Receipts < 1 || c.Receipts > 10_000_000:
		return fmt.Errorf("--receipts=%d: must be 1 to 10000000", c.Receipts)
	}
	return c.readPolicies()
}

// readPolicies reads those that flags name.
func (c *serveCommand) readPolicies() error {
	texts := c.Policy
	if len(texts) == 0 {
		texts = []string{"default=100/s"}
	}
	for _, text := range texts {
		p, err := parsePolicy(text)
		switch {
		case err != nil:
			return fmt.Errorf("--policy=%s: %w", text, err)
		case config.IsReserved(p.Name()):
			return fmt.Errorf("--policy=%s: begins as the names of Envoy's rules do", text)
		case slices.ContainsFunc(c.policies, func(other *shardlimit.Policy) bool { return other.Name() == p.Name() }):
			return fmt.Errorf("--policy=%s: is there already", text)
		}
		c.policies = append(c.policies, p)
	}
	return nil
}

// Run is called by the parser.
func (c *serveCommand) Run(ctx context.Context, stdout io.Writer) error {
	file, err := c.open()
	if err != nil {
		return err
	}
	server := file.Now().Server
	c.override(&server)
	token, err := adminToken(&server)
	if err != nil {
		return err
	}
	return serve.Run(ctx, serve.Options{
		Server: server, Redis: c.redis(&server.Redis), File: file, AdminToken: token, Log: newLog(stdout, server.Log),
		Receipts: c.Receipts, DrainDelay: c.DrainDelay,
	})
}

// open returns the configuration before flags override it.
func (c *serveCommand) open() (*reload.File, error) {
	if c.Config != "" {
		return reload.Open(config.Source{Path: c.Config, Envoy: c.EnvoyConfig})
	}
	first := config.Default()
	first.Rules = rules.New(c.policies, nil)
	return reload.Open(config.Source{Flags: first, Envoy: c.EnvoyConfig})
}

// parsePolicy reads NAME=LIMIT, with commas between several limits.
func parsePolicy(text string) (*shardlimit.Policy, error) {
	name, limits, _ := strings.Cut(text, "=")
	p := shardlimit.PolicyConfig{Name: name}
	for limit := range strings.SplitSeq(limits, ",") {
		l, err := shardlimit.ParseLimit(limit)
		if err != nil {
			return nil, err
		}
		p.Limits = append(p.Limits, l)
	}
	return shardlimit.NewPolicy(p)
}

// override puts what flags say before what the file does.
func (c *serveCommand) override(s *config.Server) {
	set(&s.Listen.Public, c.Listen)
	set(&s.Listen.Admin, c.Admin)
	set(&s.Listen.Envoy, c.Envoy)
	set(&s.Listen.ReadTimeout, c.ReadTimeout)
	put(&s.AdminTokenFile, c.AdminToken)
	put(&s.Log.Format, c.LogFormat)
	put(&s.Log.Level, c.LogLevel)
	set(&s.Timeout, c.Timeout)
	set(&s.Redis.Prefix, c.Prefix)
}

// redis returns where Redis is: what flags say before what the file does.
func (c *serveCommand) redis(r *config.Redis) connect.Flags {
	f := connect.Flags{
		Redis: r.Nodes, Single: r.Single, User: r.User, PasswordFile: r.PasswordFile,
		CA: r.TLS.CAFile, Cert: r.TLS.CertFile, Key: r.TLS.KeyFile, ServerName: r.TLS.ServerName,
	}
	if len(c.Redis) > 0 {
		f.Redis, f.Single = c.Redis, false
	}
	f.Single = f.Single || c.Single
	put(&f.User, c.User)
	put(&f.PasswordFile, c.PasswordFile)
	put(&f.CA, c.CA)
	put(&f.Cert, c.Cert)
	put(&f.Key, c.Key)
	put(&f.ServerName, c.ServerName)
	return f
}

// put sets to, unless from is zero.
func put[T comparable](to *T, from T) {
	var zero T
	if from != zero {
		*to = from
	}
}

// set sets to, unless from is nil: a flag that wasn't there.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// adminToken returns that of the file, or else of the environment.
func adminToken(s *config.Server) (string, error) {
	from, token := "$SHARDLIMIT_ADMIN_TOKEN", os.Getenv("SHARDLIMIT_ADMIN_TOKEN")
	if s.AdminTokenFile != "" {
		var err error
		from = s.AdminTokenFile
		if token, err = serve.ReadSecret(from); err != nil {
			return "", fmt.Errorf("admin token: %w", err)
		}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("admin token: %s: must be visible ASCII without spaces, in one line, as a bearer token is", from)
	}
	return token, nil
}

// newLog returns a log of lines on w.
func newLog(w io.Writer, l config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.Level)) // it is one of those that slog knows
	opts := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
