package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
)

// openLimiter returns the limiter: of a cluster, or of this process where no
// cluster is named. It asks nothing of Redis, which may be away.
func openLimiter(o *Options) (*shardlimit.Limiter, error) {
	s := &o.Server
	cfg := shardlimit.Config{Prefix: s.Redis.Prefix, Timeout: s.Timeout, Breaker: s.Breaker, Logger: o.Log}
	if s.SubjectKeyFile != "" {
		key, err := ReadSecret(s.SubjectKeyFile)
		if err != nil {
			return nil, fmt.Errorf("subject key: %w", err)
		}
		cfg.SubjectKey = []byte(key)
	}
	if len(s.Redis.Seeds) == 0 {
		o.Log.LogAttrs(context.Background(), slog.LevelInfo, "deciding in this process: no Redis is named")
		return shardlimit.NewLocal(cfg)
	}
	opts, err := clusterOptions(&s.Redis, o.Secrets)
	if err != nil {
		return nil, err
	}
	o.Log.LogAttrs(context.Background(), slog.LevelInfo, "deciding in Redis", slog.Any("seeds", opts.Addrs), slog.Bool("tls", opts.TLSConfig != nil))
	return shardlimit.Open(opts, cfg)
}

// clusterOptions returns how to reach the cluster.
func clusterOptions(r *config.Redis, secrets Secrets) (*redis.ClusterOptions, error) {
	opts := &redis.ClusterOptions{}
	who := credentials{user: r.User, password: secrets.RedisPassword, file: r.PasswordFile}
	if who.user == "" {
		who.user = secrets.RedisUser
	}
	encrypted := r.TLS.Enabled
	for _, text := range r.Seeds {
		s, err := parseSeed(text)
		if err != nil {
			return nil, err
		}
		opts.Addrs = append(opts.Addrs, s.address)
		encrypted = encrypted || s.encrypted
		who.fill(s.credentials)
	}
	if who.file != "" {
		if _, err := ReadSecret(who.file); err != nil { // now rather than at the first connection
			return nil, fmt.Errorf("redis password: %w", err)
		}
	}
	opts.CredentialsProviderContext = who.now
	if !encrypted {
		return opts, nil
	}
	var err error
	opts.TLSConfig, err = tlsConfig(&r.TLS)
	return opts, err
}

// credentials are who the daemon is to Redis.
type credentials struct{ user, password, file string }

// fill takes those of a URL where there are none.
func (c *credentials) fill(o credentials) {
	if c.user == "" && c.password == "" && c.file == "" {
		*c = o
	}
}

// now returns them for a new connection. The file is read each time, so that a
// password can be changed without a restart.
func (c credentials) now(context.Context) (user, password string, err error) {
	if c.file == "" {
		return c.user, c.password, nil
	}
	password, err = ReadSecret(c.file)
	return c.user, password, err
}

// seed is a node to ask first.
type seed struct {
	address   string
	encrypted bool
	credentials
}

// errSeed doesn't show what it is about: there may be a password in it.
var errSeed = errors.New("redis: a seed is neither host:port nor a redis:// or rediss:// URL of a host and a port")

// parseSeed reads host:port or a URL of it.
func parseSeed(text string) (seed, error) {
	if !config.IsSeed(text) {
		return seed{}, errSeed
	}
	if !strings.Contains(text, "://") {
		return seed{address: text}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return seed{}, errSeed
	}
	s := seed{address: u.Host, encrypted: u.Scheme == "rediss"}
	if u.Port() == "" {
		s.address = u.Host + ":6379"
	}
	s.user = u.User.Username()
	s.password, _ = u.User.Password()
	return s, nil
}

// tlsConfig returns how to speak TLS, by the files that t names.
func tlsConfig(t *config.TLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis tls: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("redis tls: %s: holds no certificate in PEM", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redis tls: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
