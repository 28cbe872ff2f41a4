package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestADecisionIsASpanBelowItsCallers(t *testing.T) {
	c := redistest.Shared(t)
	spans := tracetest.NewSpanRecorder()
	reader := sdkmetric.NewManualReader()
	s := service{
		addrs: c.Addrs(), timeout: time.Minute,
		traces:  sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	}
	ctx := context.WithoutCancel(t.Context()) // a call that goes alone has no other end than a near one
	if err := s.serve(ctx); err != nil {
		t.Fatal(err)
	}
	request := named(t, spans, "GET /orders")
	if call := named(t, spans, "evalsha"); call.Parent().SpanID() != request.SpanContext().SpanID() {
		t.Errorf("the call is below span %v, want %v", call.Parent().SpanID(), request.SpanContext().SpanID())
	}
	for _, want := range []attribute.KeyValue{
		attribute.String("shardlimit.policy", "api"), attribute.String("shardlimit.source", "redis"), attribute.Bool("shardlimit.allowed", true),
	} {
		if !slices.Contains(request.Attributes(), want) {
			t.Errorf("attributes %v, want %v among them", request.Attributes(), want)
		}
	}
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	if !measured(metrics, "db.client.connections.use_time") {
		t.Errorf("%+v: want a time that commands took", metrics.ScopeMetrics)
	}
}

func named(t *testing.T, spans *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
		if s.Name() == name {
			return s
		}
	}
	t.Fatalf("spans %q, want %q among them", names, name)
	return nil
}

func measured(m metricdata.ResourceMetrics, name string) bool {
	for _, scope := range m.ScopeMetrics {
		for _, metric := range scope.Metrics {
			if metric.Name == name {
				return true
			}
		}
	}
	return false
}

func TestRunPrintsSpans(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), redistest.Shared(t).Addrs(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Name": "GET /orders"`, "shardlimit.policy"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "user:42") {
		t.Errorf("the subject is in the spans:\n%s", &out)
	}
}
