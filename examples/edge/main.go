// Command edge is a service at the edge of a network: each tenant has a limit that
// all instances share, and one of them asks for more than all others together.
//
//	go run ./examples/edge -redis 10.0.0.1:6379,10.0.0.2:6379
//	curl -i -H 'X-API-Key: acme' http://127.0.0.1:8080/
//	curl http://127.0.0.1:8080/debug/limits
//
// The hot tenant costs Redis next to nothing: its units are lent to the instances
// that are asked for it, some at once, and spent there. Its denials are known
// there too. As its policy has Parts, what still goes to Redis goes to all shards.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

func main() {
	seeds := flag.String("redis", "127.0.0.1:7000", "nodes of the cluster, with commas between")
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	flag.Parse()
	if err := run(*listen, strings.Split(*seeds, ",")); err != nil {
		log.Fatal(err)
	}
}

func run(listen string, seeds []string) error {
	limiter, err := shardlimit.Open(&redis.ClusterOptions{Addrs: seeds}, shardlimit.Config{})
	if err != nil {
		return err
	}
	handler, err := edge(limiter)
	if err != nil {
		return errors.Join(err, limiter.Close())
	}
	server := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(interrupted, func() { _ = server.Shutdown(context.Background()) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, limiter.Close())
	}
	return limiter.Close() // gives back what is lent and unspent
}

// tenants is the limit of each tenant, over all instances. While a shard is away,
// each of about ten instances lets a tenth of it pass.
var tenants = shardlimit.MustPolicy(shardlimit.PolicyConfig{
	Name:      "tenants",
	Limits:    []shardlimit.Limit{shardlimit.PerSecond(10_000).WithBurst(20_000)},
	Parts:     8,
	OnFailure: shardlimit.FailLocal(0.1),
})

// edge returns the service, and what the limiter knows, for its operators.
func edge(limiter *shardlimit.Limiter) (http.Handler, error) {
	limit, err := middleware.New(middleware.Config{
		Limiter: limiter,
		Policy:  middleware.Always(tenants),
		Subject: middleware.APIKey("X-API-Key"),
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", limit(http.HandlerFunc(serve)))
	mux.HandleFunc("/debug/limits", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(limiter.Inspect()) // who has gone needs no answer
	})
	return mux, nil
}

// serve stands for what the service does.
func serve(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served\n") }
