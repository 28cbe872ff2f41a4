// Package connect is the command line's way to a Redis: the flags that say
// where it is and as whom to ask, and the client that they make.
package connect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/cluster"
)

// Flags say where Redis is and as whom to ask it. A command embeds them. No
// flag takes the password, as other users of a machine can read a command line.
type Flags struct {
	Redis        []string `placeholder:"HOST:PORT" env:"SHARDLIMIT_REDIS" help:"Nodes of the cluster, any of which leads to all: host:port, redis://host:port, or rediss://host:port for TLS."`
	Single       bool     `name:"redis-single" env:"SHARDLIMIT_REDIS_SINGLE" help:"What --redis names is one server without cluster mode."`
	User         string   `name:"redis-user" env:"SHARDLIMIT_REDIS_USER" placeholder:"NAME" help:"The user to ask as. The password is in the environment, SHARDLIMIT_REDIS_PASSWORD, or in a file."`
	PasswordFile string   `name:"redis-password-file" env:"SHARDLIMIT_REDIS_PASSWORD_FILE" placeholder:"FILE" help:"The file that holds the password, and a line's end perhaps."`
	CA           string   `name:"redis-ca" env:"SHARDLIMIT_REDIS_CA" placeholder:"FILE" help:"The certificates to trust, PEM, instead of the system's. This and the next three imply TLS."`
	Cert         string   `name:"redis-cert" env:"SHARDLIMIT_REDIS_CERT" placeholder:"FILE" help:"The certificate to show, PEM."`
	Key          string   `name:"redis-key" env:"SHARDLIMIT_REDIS_KEY" placeholder:"FILE" help:"Its key, PEM."`
	ServerName   string   `name:"redis-server-name" env:"SHARDLIMIT_REDIS_SERVER_NAME" placeholder:"NAME" help:"The name in all nodes' certificates; without it, each must bear the host that is dialled."`
}

// passwordVariable is the variable of the environment that the password is in, unless
// it's in a file.
const passwordVariable = "SHARDLIMIT_REDIS_PASSWORD"

// ErrNowhere says that no node is named.
var ErrNowhere = errors.New("--redis: want the host:port of a node")

// Options returns the options of a client, fit for decisions, of what the flags
// name. The error joins one for each fault; none of them holds a password.
func (f *Flags) Options() (*redis.ClusterOptions, error) {
	opts := &redis.ClusterOptions{}
	var faults []error
	if len(f.Redis) == 0 {
		faults = append(faults, ErrNowhere)
	}
	if slices.ContainsFunc(f.Redis, inClear) && slices.ContainsFunc(f.Redis, byTLS) {
		faults = append(faults, errors.New("--redis: redis:// and rediss:// side by side: one client speaks TLS to all nodes, or to none"))
	}
	for i, node := range f.Redis {
		if err := addNode(opts, node); err != nil {
			faults = append(faults, fmt.Errorf("--redis, node %d: %w", i+1, err))
		}
	}
	if f.Single && len(opts.Addrs) > 1 {
		faults = append(faults, errors.New("--redis-single: want one node in --redis"))
	}
	faults = append(faults, f.identify(opts), f.secure(opts))
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return cluster.Tune(opts), nil
}

// Client returns a client of what the flags name: a *redis.Client of a single
// server, else a *redis.ClusterClient. It dials nobody yet. The error is that
// of Options.
func (f *Flags) Client() (redis.UniversalClient, error) {
	opts, err := f.Options()
	if err != nil {
		return nil, err
	}
	if f.Single {
		return redis.NewClient(Node(opts, opts.Addrs[0])), nil
	}
	return redis.NewClusterClient(opts), nil
}

// Node returns the options of a client of one node alone, as opts are for all
// of them.
func Node(opts *redis.ClusterOptions, addr string) *redis.Options {
	return &redis.Options{
		Addr:                     addr,
		Username:                 opts.Username,
		Password:                 opts.Password,
		TLSConfig:                opts.TLSConfig,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		DialTimeout:              opts.DialTimeout,
		DialerRetries:            opts.DialerRetries,
		ReadTimeout:              opts.ReadTimeout,
		WriteTimeout:             opts.WriteTimeout,
		PoolTimeout:              opts.PoolTimeout,
		PoolSize:                 opts.PoolSize,
		MaintNotificationsConfig: opts.MaintNotificationsConfig,
	}
}

func inClear(node string) bool { return strings.HasPrefix(node, "redis://") }
func byTLS(node string) bool   { return strings.HasPrefix(node, "rediss://") }

// addNode adds a host:port or a URL to opts.
func addNode(opts *redis.ClusterOptions, node string) error {
	if !strings.Contains(node, "://") {
		if _, _, err := net.SplitHostPort(node); err != nil || strings.Contains(node, "@") {
			return errors.New("want host:port or a URL") // node may hold the password
		}
		opts.Addrs = append(opts.Addrs, node)
		return nil
	}
	parsed, err := redis.ParseURL(node)
	if err != nil {
		return errors.New("not a redis:// or rediss:// URL") // err may hold the password
	}
	if parsed.DB != 0 {
		return errors.New("a cluster has no database but 0")
	}
	opts.Addrs = append(opts.Addrs, parsed.Addr)
	if parsed.TLSConfig != nil {
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if parsed.Username != "" || parsed.Password != "" {
		opts.Username, opts.Password = parsed.Username, parsed.Password
	}
	return nil
}

// identify puts the user and the password into opts. They come before those of
// a URL.
func (f *Flags) identify(opts *redis.ClusterOptions) error {
	if f.User != "" {
		opts.Username = f.User
	}
	if f.PasswordFile != "" {
		text, err := os.ReadFile(f.PasswordFile)
		if err != nil {
			return fmt.Errorf("--redis-password-file: %w", err)
		}
		opts.Password = strings.TrimRight(string(text), "\r\n")
		return nil
	}
	if password := os.Getenv(passwordVariable); password != "" {
		opts.Password = password
	}
	return nil
}
