package envoy_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// The windows are long, so that none ends while a test runs.
const config = `
domain: shop
descriptors:
  - {key: client, rate_limit: {unit: year, requests_per_unit: 50}}
  - key: path
    value: /pay*
    descriptors:
      - {key: client, rate_limit: {unit: year, requests_per_unit: 20}}
  - {key: user, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
`

// rules returns those of config, always.
func rules(t *testing.T, settings domains.Settings, handOver bool) func() envoy.Rules {
	t.Helper()
	set, err := domains.Parse([]domains.File{{Path: "f", Text: []byte(config)}}, settings)
	if err != nil {
		t.Fatal(err)
	}
	return func() envoy.Rules { return envoy.Rules{Domains: set, HandOver: handOver} }
}

// serve serves by the options until the test ends, and returns the server and a
// connection to it.
func serve(t *testing.T, o envoy.Options) (*envoy.Server, *grpc.ClientConn) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, ended := envoy.New(o), make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server, dial(t, listener.Addr().String())
}

// dial returns a connection that the test's end closes.
func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return closing.Opened(t, conn, err)
}

// desc returns a descriptor of keys and values, in turn.
func desc(words ...string) *descriptor.RateLimitDescriptor {
	d := &descriptor.RateLimitDescriptor{}
	for pair := range slices.Chunk(words, 2) {
		d.Entries = append(d.Entries, &descriptor.RateLimitDescriptor_Entry{Key: pair[0], Value: pair[1]})
	}
	return d
}

func TestEnvoyIsAnsweredOutOfACluster(t *testing.T) {
	cluster := redistest.Start(t, redistest.Options{})
	open := func() *shardlimit.Limiter {
		l, err := shardlimit.Open(cluster.ClientOptions(), shardlimit.Config{Timeout: 10 * time.Second})
		return closing.Opened(t, l, err)
	}
	testServers(t, open(), open())
}

func TestEnvoyIsAnsweredOutOfTheProcess(t *testing.T) {
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	l = closing.Opened(t, l, err)
	testServers(t, l, l)
}

// testServers asks a server for each limiter, all of which count in common.
func testServers(t *testing.T, limiters ...*shardlimit.Limiter) {
	settings := domains.Default()
	settings.Leases = shardlimit.LeaseOff // what is lent is refused meanwhile
	var clients []ratelimit.RateLimitServiceClient
	for _, l := range limiters {
		_, conn := serve(t, envoy.Options{Limiter: l, Rules: rules(t, settings, false)})
		clients = append(clients, ratelimit.NewRateLimitServiceClient(conn))
	}
	const callers, each = 8, 10 // 80 requests, of which 20 pass
	var ok [3]atomic.Int64      // the request, and each descriptor
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range each {
				r, err := clients[i%len(clients)].ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
					Domain:      "shop",
					Descriptors: []*descriptor.RateLimitDescriptor{desc("path", "/pay/1", "client", "c"), desc("client", "c")},
				})
				if err != nil {
					t.Error(err)
					return
				}
				for i, code := range []ratelimit.RateLimitResponse_Code{r.OverallCode, r.Statuses[0].Code, r.Statuses[1].Code} {
					if code == ratelimit.RateLimitResponse_OK {
						ok[i].Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	for i, want := range []int64{20, 20, 50} { // each descriptor is charged by itself
		if got := ok[i].Load(); got != want {
			t.Errorf("ok[%d] = %d of %d, want %d", i, got, callers*each, want)
		}
	}

	shadow, err := clients[0].ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
		Domain: "shop", HitsAddend: 9, Descriptors: []*descriptor.RateLimitDescriptor{desc("user", "u")},
	})
	if err != nil || shadow.OverallCode != ratelimit.RateLimitResponse_OK {
		t.Errorf("9 hits on a shadow of 1: %v, %v; want OK", shadow, err)
	}
}

// away returns a limiter whose Redis isn't there.
func away(t *testing.T) *shardlimit.Limiter {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil { // so nobody listens there
		t.Fatal(err)
	}
	l, err := shardlimit.Open(&redis.ClusterOptions{Addrs: []string{listener.Addr().String()}}, shardlimit.Config{})
	return closing.Opened(t, l, err)
}

func TestWhereRedisIsAwayTheSettingsOrEnvoyDecide(t *testing.T) {
	limiter := away(t)
	ask := func(handOver bool, mode shardlimit.FailureMode, hits uint32, d *descriptor.RateLimitDescriptor) string {
		settings := domains.Default()
		settings.OnFailure = mode
		_, conn := serve(t, envoy.Options{Limiter: limiter, Rules: rules(t, settings, handOver)})
		r, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
			Domain: "shop", HitsAddend: hits, Descriptors: []*descriptor.RateLimitDescriptor{d},
		})
		if err != nil {
			return status.Code(err).String()
		}
		return r.OverallCode.String()
	}
	client, user, other := desc("client", "c"), desc("user", "u"), desc("other", "o")
	for _, tt := range []struct {
		handOver bool
		mode     shardlimit.FailureMode
		hits     uint32
		d        *descriptor.RateLimitDescriptor
		want     string
	}{
		{true, shardlimit.FailOpen(), 1, client, codes.Unavailable.String()},
		{true, shardlimit.FailOpen(), 5, client, codes.Unavailable.String()},
		{true, shardlimit.FailOpen(), 1, user, "OK"}, // a shadow never refuses
		{true, shardlimit.FailOpen(), 1, other, "OK"},
		{false, shardlimit.FailOpen(), 1, client, "OK"},
		{false, shardlimit.FailOpen(), 500, client, "OK"},
		{false, shardlimit.FailClosed(), 1, client, "OVER_LIMIT"},
		{false, shardlimit.FailClosed(), 5, client, "OVER_LIMIT"},
		{false, shardlimit.FailClosed(), 1, user, "OK"},
	} {
		if got := ask(tt.handOver, tt.mode, tt.hits, tt.d); got != tt.want {
			t.Errorf("hand over %t, %v, %d hits on %v: %s, want %s", tt.handOver, tt.mode, tt.hits, tt.d.Entries, got, tt.want)
		}
	}
}

func TestHealthFollowsReadiness(t *testing.T) {
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	var isReady atomic.Bool
	ready := func(context.Context) bool { return isReady.Load() }
	_, conn := serve(t, envoy.Options{Limiter: closing.Opened(t, l, err), Ready: ready, Rules: rules(t, domains.Default(), false)})
	health := healthpb.NewHealthClient(conn)
	for _, step := range []struct {
		ready bool
		want  healthpb.HealthCheckResponse_ServingStatus
	}{
		{false, healthpb.HealthCheckResponse_NOT_SERVING},
		{true, healthpb.HealthCheckResponse_SERVING},
		{false, healthpb.HealthCheckResponse_NOT_SERVING},
	} {
		isReady.Store(step.ready)
		for _, of := range []string{"", "envoy.service.ratelimit.v3.RateLimitService"} {
			r, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: of})
			if err != nil || r.Status != step.want {
				t.Errorf("health of %q, ready %t: %v, %v; want %v", of, step.ready, r, err, step.want)
			}
		}
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	_, conn := serve(t, envoy.Options{Limiter: closing.Opened(t, l, err), Rules: rules(t, domains.Default(), false)})
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := &reflectionpb.ServerReflectionRequest_ListServices{}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: list}); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range r.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("services %v, want %s among them", names, want)
		}
	}
}

// isOpen reports whether somebody listens there.
func isOpen(t *testing.T, addr string) bool {
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// TestShutdownAnswersWhatIsUnderWay: a request that began before is answered,
// one that comes after is not.
func TestShutdownAnswersWhatIsUnderWay(t *testing.T) {
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	l = closing.Opened(t, l, err)
	began, proceed := make(chan struct{}), make(chan struct{})
	now := rules(t, domains.Default(), false)
	server, conn := serve(t, envoy.Options{Limiter: l, Rules: func() envoy.Rules {
		close(began)
		<-proceed
		return now()
	}})
	client := ratelimit.NewRateLimitServiceClient(conn)
	request := &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: []*descriptor.RateLimitDescriptor{desc("client", "c")}}
	answered, stopped := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := client.ShouldRateLimit(t.Context(), request)
		answered <- err
	}()
	<-began
	go func() { stopped <- server.Shutdown(t.Context()) }()
	for refused := false; !refused; { // until it takes no more
		refused = !isOpen(t, conn.Target())
	}
	select {
	case err := <-stopped:
		t.Errorf("Shutdown returned %v while a request was under way", err)
	default:
	}
	close(proceed)
	if err := <-answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := client.ShouldRateLimit(t.Context(), request); status.Code(err) != codes.Unavailable {
		t.Errorf("a request after Shutdown: %v, want Unavailable", err)
	}
}
