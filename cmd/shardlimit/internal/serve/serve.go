// Package serve runs the daemon: what does it listen on, in what does it decide,
// how does it end?
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/api"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/page"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
	"github.com/shardlimit/shardlimit/metrics"
)

// Options are what a daemon is made of.
type Options struct {
	Server     config.Server
	Redis      connect.Flags // in place of what Server says of it
	File       *reload.File  // of the rules
	AdminToken string        // "" for none
	Log        *slog.Logger
	Receipts   int           // how many are kept for refunds
	DrainDelay time.Duration // from being unready to accepting no more
}

// stopTimeout is how long requests under way may take once the daemon ends.
const stopTimeout = 10 * time.Second

// Run runs the daemon until ctx ends, and then ends it in order: it is unready,
// answers what is under way, and closes the limiter, which gives leases back.
//
// The error is that it can't start, or could not end in order.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	record := page.NewRecord()
	m := metrics.New(metrics.Config{Observer: record.Observer()})
	limiter, closeLimiter, err := openLimiter(&o, m.Observer())
	if err != nil {
		return err
	}
	m.Watch(limiter)
	err = o.serve(ctx, limiter, m, record)
	return errors.Join(err, closeLimiter())
}

// check returns why the daemon must not run so.
func (o *Options) check() error {
	if admin := o.Server.Listen.Admin; admin != "" && o.AdminToken == "" && !isLoopback(admin) {
		return fmt.Errorf("admin listener %s: others than this machine reach it, so it needs a token: "+
			"admin_token_file or SHARDLIMIT_ADMIN_TOKEN", admin)
	}
	if (o.Server.Listen.Envoy == "") != (o.Server.EnvoyPath == "") {
		return errors.New("envoy: an address to listen on and limits go together: " +
			"listen.envoy or --envoy, and envoy.config or --envoy-config")
	}
	if o.Server.Listen.Public == "" && o.Server.Listen.Envoy == "" {
		return errors.New("nothing to listen on: listen.public and listen.envoy, or --listen and --envoy, are empty")
	}
	if r := o.Redis; len(r.Redis) == 0 && !reflect.DeepEqual(r, connect.Flags{Redis: r.Redis}) {
		return errors.New("redis: no node is named, so that nobody is asked as what else is said of it: redis.nodes or --redis")
	}
	return nil
}

// isLoopback reports whether nobody but this machine reaches the address.
func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serve answers until ctx ends.
func (o *Options) serve(ctx context.Context, limiter *shardlimit.Limiter, m *metrics.Metrics, record *page.Record) error {
	hits := envoy.NewHits()
	a := api.New(api.Options{
		Limiter: limiter, Config: o.File.Now, Status: o.File.Status, Metrics: scraped(m, hits),
		Token: o.AdminToken, AdminHosts: o.Server.Listen.AdminHosts, Receipts: o.Receipts,
	})
	servers, err := o.listen(ctx, a.Public(), a.Guard(o.page(limiter, record).Before(a.Admin())), o.envoy(limiter, a, hits))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	for _, s := range servers {
		running.Go(func() { stop(s.run()) })
	}
	tell := told(m, record)
	tell(o.File.Status())
	running.Go(func() { o.watch(ctx, tell) })
	running.Go(func() { record.Run(ctx) })

	<-ctx.Done()
	o.Log.LogAttrs(ctx, slog.LevelInfo, "stopping")
	a.Drain()
	err = errors.Join(failure(ctx), o.shutdown(servers))
	running.Wait()
	return err
}

// failure returns why a server ended by itself, if one did.
func failure(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// watch reads the configuration anew as it changes.
func (o *Options) watch(ctx context.Context, told func(reload.Status)) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	o.File.Watch(ctx, o.Log, told, hangup)
}

// shutdown lets the requests under way end.
func (o *Options) shutdown(servers []server) error {
	time.Sleep(o.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var all sync.WaitGroup
	faults := make([]error, len(servers))
	for i, s := range servers {
		all.Go(func() { faults[i] = s.Shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(faults...)
}

// server is one listener and who answers there.
type server struct {
	answerer
	listener net.Listener
}

// answerer answers on a listener until Shutdown, and returns nil then.
type answerer interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// run answers until Shutdown.
func (s server) run() error { return s.Serve(s.listener) }

// listen returns the servers, which listen already.
func (o *Options) listen(ctx context.Context, public, admin http.Handler, e *envoy.Server) ([]server, error) {
	var servers []server
	for _, l := range []struct {
		name, address string
		answerer      answerer
	}{
		{"public", o.Server.Listen.Public, o.server(public)},
		{"admin", o.Server.Listen.Admin, o.server(admin)},
		{"envoy", o.Server.Listen.Envoy, e},
	} {
		if l.address == "" {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
		if err != nil {
			for _, s := range servers {
				err = errors.Join(err, s.listener.Close())
			}
			return nil, err
		}
		o.Log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("listener", l.name), slog.String("address", listener.Addr().String()))
		servers = append(servers, server{l.answerer, listener})
	}
	return servers, nil
}

// The bounds of what a client may take.
const (
	maxHeader   = 16 << 10 // bytes
	writeTime   = 10 * time.Second
	idleTimeout = 2 * time.Minute
)

// overHTTP answers over HTTP.
type overHTTP struct{ *http.Server }

// Serve answers until Shutdown.
func (h overHTTP) Serve(l net.Listener) error {
	if err := h.Server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// server returns a server that no slow client holds up.
func (o *Options) server(h http.Handler) overHTTP {
	read := o.Server.Listen.ReadTimeout
	return overHTTP{&http.Server{
		Handler:           h,
		ReadHeaderTimeout: read,
		ReadTimeout:       read,
		WriteTimeout:      read + writeTime, // it counts from the end of the header
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}}
}
