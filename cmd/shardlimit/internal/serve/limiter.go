package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
)

// openLimiter returns the limiter: of a cluster, of a single server, or of this
// process where no Redis is named. It asks nothing of Redis, which may be away.
// What it returns to close it closes all that was opened.
func openLimiter(o *Options, observer shardlimit.Observer) (*shardlimit.Limiter, func() error, error) {
	cfg, err := o.limiter(observer)
	if err != nil {
		return nil, nil, err
	}
	if len(o.Redis.Redis) == 0 {
		o.Log.LogAttrs(context.Background(), slog.LevelInfo, "deciding in this process: no Redis is named")
		l, err := shardlimit.NewLocal(cfg)
		return closing(l, err)
	}
	opts, err := o.Redis.Options()
	if err != nil {
		return nil, nil, err
	}
	o.Log.LogAttrs(context.Background(), slog.LevelInfo, "deciding in Redis",
		slog.Any("nodes", opts.Addrs), slog.Bool("cluster", !o.Redis.Single), slog.Bool("tls", opts.TLSConfig != nil))
	if !o.Redis.Single {
		l, err := shardlimit.Open(opts, cfg)
		return closing(l, err)
	}
	client := redis.NewClient(connect.Node(opts, opts.Addrs[0]))
	l, err := shardlimit.New(client, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return l, func() error { return errors.Join(l.Close(), client.Close()) }, nil
}

// closing returns l with its own Close.
func closing(l *shardlimit.Limiter, err error) (*shardlimit.Limiter, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	return l, l.Close, nil
}

// limiter returns what the limiter is made with.
func (o *Options) limiter(observer shardlimit.Observer) (shardlimit.Config, error) {
	s := &o.Server
	cfg := shardlimit.Config{
		Prefix: s.Redis.Prefix, Timeout: s.Timeout, Breaker: s.Breaker, Observer: observer, Logger: o.Log,
	}
	if s.SubjectKeyFile == "" {
		return cfg, nil
	}
	key, err := ReadSecret(s.SubjectKeyFile)
	if err != nil {
		return cfg, fmt.Errorf("subject key: %w", err)
	}
	cfg.SubjectKey = []byte(key)
	return cfg, nil
}
