package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// startEnvoy starts a daemon that answers Envoy by the limits at path, and
// returns a connection to it.
func startEnvoy(t *testing.T, path string, flags ...string) (*daemon, *grpc.ClientConn) {
	t.Helper()
	d := launch(t, nil, append([]string{"--envoy=127.0.0.1:0", "--envoy-config=" + path}, flags...)...)
	line := d.listens()
	for line.Listener != "envoy" { // which is the last
		line = d.listens()
	}
	conn, err := grpc.NewClient(line.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	closing.Opened(t, conn, err)
	return d, conn
}

// hit asks for n requests of a client of the shop, and returns how many were OK.
func hit(t *testing.T, conn *grpc.ClientConn, client string, n int) (ok int) {
	t.Helper()
	entry := &descriptor.RateLimitDescriptor_Entry{Key: "client", Value: client}
	for range n {
		r, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
			Domain:      "shop",
			Descriptors: []*descriptor.RateLimitDescriptor{{Entries: []*descriptor.RateLimitDescriptor_Entry{entry}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.OverallCode == ratelimit.RateLimitResponse_OK {
			ok++
		}
	}
	return ok
}

func TestServeStandsInForEnvoysReference(t *testing.T) {
	dir := t.TempDir()
	limits := func(requests string) {
		t.Helper()
		text := "domain: shop\ndescriptors:\n- key: client\n  rate_limit: {unit: year, requests_per_unit: " + requests + "}\n"
		testfile.Write(t, filepath.Join(dir, "shop.yaml"), text)
	}
	limits("5")
	cluster := []string{"--redis=" + strings.Join(redistest.Shared(t).Addrs(), ","), "--prefix=" + redistest.Prefix(t), patient}
	d, conn := startEnvoy(t, dir, cluster...)
	_, other := startEnvoy(t, dir, cluster...)

	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || health.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v; want to be serving", health, err)
	}
	if got := hit(t, conn, "a", 3) + hit(t, other, "a", 9); got != 5 {
		t.Errorf("%d of 12 requests at two daemons were OK, want 5", got)
	}
	limits("7") // what was used counts on
	d.await("configuration reloaded")
	if got := hit(t, conn, "a", 9); got != 2 {
		t.Errorf("%d of 9 requests were OK after the limit rose by 2", got)
	}
	limits("many") // the last good one holds on
	if line := d.await("configuration fault: the last good one holds"); !strings.Contains(line.Fault, "shop.yaml:4:") {
		t.Errorf("the log says %+v; want the file and the line", line)
	}
	if got := hit(t, conn, "b", 9); got != 7 {
		t.Errorf("%d of 9 requests were OK under the last good limits, want 7", got)
	}
	if err := d.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-d.exited
	if d.code != 0 {
		t.Errorf("exit status %d, want 0: %s", d.code, d.output())
	}
}
