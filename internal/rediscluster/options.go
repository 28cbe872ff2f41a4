package rediscluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Options says what to start. The zero value is a cluster of three primaries
// without replicas, run by the installed redis-server.
type Options struct {
	// Shards is the number of primaries; 0 means 3. With fewer than three no
	// replica is ever promoted by itself: it takes a majority of primaries.
	Shards int
	// Replicas is the number of replicas of each primary.
	Replicas int
	// Launch starts what will run the servers; nil means processes, of which
	// Server says more. ctx bounds the start alone.
	Launch func(ctx context.Context, opts Options) (Launcher, error)
	// Server is a redis-server or valkey-server binary, or a folder that holds
	// one as usr/bin/redis-server together with the libraries that it needs,
	// started through the folder's own loader. Empty means the one on PATH.
	Server string
	// NodeTimeout is how long a node must be silent until its peers count it
	// as failed; 0 means 1 s.
	NodeTimeout time.Duration
	// Args are more flags for each server, one word an element. They come
	// last, so they win. The default user must stay able to do everything.
	Args []string
	// Files are the files of this machine that Args name: each server finds a
	// copy under the same path.
	Files []string
	// TLS, where not nil, makes the nodes speak nothing but TLS, to clients
	// and to each other, and is what the clients made here dial with. Args
	// then name the certificates (--tls-cert-file and so on), and Files them.
	TLS *tls.Config
}

// withDefaults returns o with its zero fields filled, or what is wrong with it.
func (o Options) withDefaults() (Options, error) {
	if o.Shards == 0 {
		o.Shards = 3
	}
	if o.NodeTimeout == 0 {
		o.NodeTimeout = time.Second
	}
	if o.Launch == nil {
		o.Launch = launchProcesses
	}
	var errs []error
	if o.Shards < 0 || o.Replicas < 0 || o.Shards*(1+o.Replicas) > maxNodes {
		errs = append(errs, fmt.Errorf("%d shards of 1+%d nodes: want 1 to %d nodes", o.Shards, o.Replicas, maxNodes))
	}
	if o.NodeTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("node timeout %v is below 1 ms", o.NodeTimeout))
	}
	return o, errors.Join(errs...)
}

// clusterFlags returns the flags of a cluster's node at host and port.
//
// Each node has an address of its own and uses it also as a client of its
// peers, so that a packet filter can tell the nodes apart. Replicas follow at
// once and vote however old their data is: a test wants the promotion, not the
// wait for it.
func (o Options) clusterFlags(v Version, host, port string) []string {
	flags := append(o.flags(host, port),
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", strconv.FormatInt(o.NodeTimeout.Milliseconds(), 10),
		"--cluster-replica-validity-factor", "0",
		"--cluster-announce-ip", host,
		"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0",
		"--repl-ping-replica-period", "1",
		"--repl-timeout", "5",
	)
	if v.Major >= 7 { // 6 has no such flag, and binds to the first --bind anyway
		flags = append(flags, "--bind-source-addr", host)
	}
	if o.TLS != nil {
		flags = append(flags, "--tls-cluster", "yes", "--tls-replication", "yes")
	}
	return append(flags, o.Args...)
}

// singleFlags returns the flags of a server without cluster mode.
func (o Options) singleFlags(_ Version, host, port string) []string {
	return append(o.flags(host, port), o.Args...)
}

// flags returns what both kinds have in common: the address, and no file
// written but nodes.conf.
func (o Options) flags(host, port string) []string {
	flags := []string{"--bind", host, "--protected-mode", "no", "--daemonize", "no", "--save", "", "--appendonly", "no"}
	if o.TLS != nil {
		return append(flags, "--port", "0", "--tls-port", port)
	}
	return append(flags, "--port", port)
}
