// Command otel traces a limiter: go-redis's own instrumentation makes a span of
// each call to Redis, and an Observer notes on the caller's span what was
// decided.
//
//	go run . 10.0.0.1:6379 10.0.0.2:6379
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run asks a limit once, and prints the spans to w as JSON.
func run(ctx context.Context, addrs []string, w io.Writer) error {
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(w), stdouttrace.WithPrettyPrint())
	if err != nil {
		return err
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	metrics := sdkmetric.NewMeterProvider() // where a service adds its reader
	s := service{addrs: addrs, traces: traces, metrics: metrics}
	return errors.Join(s.serve(ctx), traces.Shutdown(ctx), metrics.Shutdown(ctx))
}

// service is one that limits its requests.
type service struct {
	addrs   []string
	timeout time.Duration // of decisions; 0: the default
	traces  trace.TracerProvider
	metrics metric.MeterProvider
}

// serve serves a request.
func (s *service) serve(ctx context.Context) error {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.addrs, ContextTimeoutEnabled: true})
	err := s.instrument(rdb)
	if err == nil {
		err = s.ask(ctx, rdb)
	}
	return errors.Join(err, rdb.Close())
}

// instrument has the client of each node make spans and metrics, before there
// are nodes. A call that goes alone has its span below its caller's; those that
// go out together have one of their own. Statements would hold the subjects.
func (s *service) instrument(rdb *redis.ClusterClient) error {
	return errors.Join(
		redisotel.InstrumentTracing(rdb, redisotel.WithTracerProvider(s.traces), redisotel.WithDBStatement(false)),
		redisotel.InstrumentMetrics(rdb, redisotel.WithMeterProvider(s.metrics)),
	)
}

// ask limits a request, in a span of its own.
func (s *service) ask(ctx context.Context, rdb *redis.ClusterClient) error {
	limiter, err := shardlimit.New(rdb, shardlimit.Config{
		Timeout: s.timeout, Observer: shardlimit.Observer{Decided: annotate},
	})
	if err != nil {
		return err
	}
	policy := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(200)},
	})
	ctx, span := s.traces.Tracer("example").Start(ctx, "GET /orders")
	defer span.End()
	_, err = limiter.Allow(ctx, policy, "user:42")
	return errors.Join(err, limiter.Close())
}

// annotate notes a decision on the span of who asked.
func annotate(ctx context.Context, d shardlimit.Decision) {
	span := trace.SpanFromContext(ctx)
	if d.Err != nil {
		span.RecordError(d.Err)
		return
	}
	span.SetAttributes(
		attribute.String("shardlimit.policy", d.Policy),
		attribute.String("shardlimit.source", d.Result.Source.String()),
		attribute.Bool("shardlimit.allowed", d.Result.Allowed),
	)
	if d.Result.Failure != nil {
		span.RecordError(d.Result.Failure)
	}
}
