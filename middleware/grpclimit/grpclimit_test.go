package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/middleware"
	"github.com/shardlimit/shardlimit/middleware/grpclimit"
)

const checkMethod, watchMethod = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"

// serve serves gRPC's health service on loopback, limited as c says, and
// returns a client of it.
func serve(t *testing.T, c grpclimit.Config) grpc_health_v1.HealthClient {
	t.Helper()
	limit, err := grpclimit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	closing.Opened(t, conn, err)
	return grpc_health_v1.NewHealthClient(conn)
}

// check makes a unary call, and returns its header too.
func check(ctx context.Context, client grpc_health_v1.HealthClient) (metadata.MD, error) {
	var h metadata.MD
	_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&h))
	return ours(h), err
}

// watch opens a stream and waits for its first message.
func watch(ctx context.Context, client grpc_health_v1.HealthClient) (metadata.MD, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv()
	h, _ := stream.Header() // there is one even if the call was refused
	return ours(h), err
}

// ours returns the fields of a header that are of interest here.
func ours(h metadata.MD) metadata.MD {
	delete(h, "content-type")
	return h
}

func newLocal(t *testing.T) *shardlimit.Limiter {
	t.Helper()
	l, err := shardlimit.NewLocal(shardlimit.Config{})
	return closing.Opened(t, l, err)
}

func perHour(rate int64, mode shardlimit.FailureMode) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(rate)}, OnFailure: mode,
	})
}

// user is a Subject that is the same for every call.
func user(context.Context, grpclimit.Call) string { return "user:42" }

// wantRefused checks a status, and that it says when to try again.
func wantRefused(t *testing.T, err error, code codes.Code, atLeast, atMost time.Duration) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code {
		t.Errorf("error %v, want %v", err, code)
	}
	if len(s.Details()) != 1 {
		t.Fatalf("%v: details %v, want a RetryInfo", err, s.Details())
	}
	info, ok := s.Details()[0].(*errdetails.RetryInfo)
	if d := info.GetRetryDelay().AsDuration(); !ok || d < atLeast || d > atMost {
		t.Errorf("%v: details %v, want a RetryInfo of %v to %v", err, s.Details(), atLeast, atMost)
	}
}

func TestCallsAreDeniedOnceTheLimitIsUsedUp(t *testing.T) {
	for name, call := range map[string]func(context.Context, grpc_health_v1.HealthClient) (metadata.MD, error){"unary": check, "stream": watch} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, grpclimit.Config{
				Limiter: newLocal(t), Policy: grpclimit.Always(perHour(2, shardlimit.FailOpen())), Subject: user,
			})
			for _, left := range []string{`"api";r=1;t=1800`, `"api";r=0;t=1800`} {
				h, err := call(t.Context(), client)
				want := metadata.MD{"ratelimit-policy": {`"api";q=2;w=3600`}, "ratelimit": {left}}
				if diff := cmp.Diff(want, h); err != nil || diff != "" {
					t.Errorf("error %v, header (-want +got):\n%s", err, diff)
				}
			}
			h, err := call(t.Context(), client)
			wantRefused(t, err, codes.ResourceExhausted, time.Minute, 30*time.Minute)
			if len(h["retry-after"]) != 1 || len(h["ratelimit"]) != 1 {
				t.Errorf("header of a denial %v, want retry-after and ratelimit", h)
			}
		})
	}
}

func TestFailureModesAnswerWhereRedisIsAway(t *testing.T) {
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})) // nobody listens there
	limiter, err := shardlimit.New(rdb, shardlimit.Config{})
	closing.Opened(t, limiter, err)
	open := serve(t, grpclimit.Config{
		Limiter: limiter, Policy: grpclimit.Always(perHour(2, shardlimit.FailOpen())), Subject: user,
	})
	if h, err := check(t.Context(), open); err != nil || len(h["ratelimit"]) != 0 {
		t.Errorf("failing open: header %v, error %v; want it to pass, with nothing of what is left", h, err)
	}
	closed := serve(t, grpclimit.Config{
		Limiter: limiter, Policy: grpclimit.Always(perHour(2, shardlimit.FailClosed())), Subject: user,
	})
	_, err = check(t.Context(), closed)
	wantRefused(t, err, codes.Unavailable, 50*time.Millisecond, 50*time.Millisecond)
}

// fails is a Limiter that never decides.
type fails struct{ err error }

func (f fails) AllowN(context.Context, *shardlimit.Policy, string, int64) (shardlimit.Result, error) {
	return shardlimit.Result{}, f.err
}

func TestEachErrorHasItsCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want codes.Code
	}{
		{errors.New("NOPERM for user secret"), codes.Internal},
		{shardlimit.ErrClosed, codes.Internal},
		{&shardlimit.CostError{Cost: 0}, codes.Internal},
		{shardlimit.ErrNoSubject, codes.InvalidArgument},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		client := serve(t, grpclimit.Config{
			Limiter: fails{tt.err}, Policy: grpclimit.Always(perHour(2, shardlimit.FailOpen())), Subject: user,
		})
		for _, call := range []func(context.Context, grpc_health_v1.HealthClient) (metadata.MD, error){check, watch} {
			if _, err := call(t.Context(), client); status.Code(err) != tt.want || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %v, want %v and nothing of the error", tt.err, err, tt.want)
			}
		}
	}
}

func TestMethodsHavePoliciesAndCosts(t *testing.T) {
	p := perHour(10, shardlimit.FailOpen())
	client := serve(t, grpclimit.Config{
		Limiter: newLocal(t),
		Policy: func(_ context.Context, c grpclimit.Call) *shardlimit.Policy {
			if c.Method == checkMethod {
				return p
			}
			return nil
		},
		Subject: user,
		Cost: func(_ context.Context, c grpclimit.Call) int64 {
			if _, ok := c.Request.(*grpc_health_v1.HealthCheckRequest); ok {
				return 4
			}
			return 1
		},
	})
	for _, want := range []metadata.MD{{}, {}, {}} {
		if h, err := watch(t.Context(), client); err != nil || !cmp.Equal(h, want) {
			t.Errorf("%s: header %v, error %v; want it to pass, unlimited", watchMethod, h, err)
		}
	}
	h, err := check(t.Context(), client)
	if got := h["ratelimit"]; err != nil || len(got) != 1 || got[0] != `"api";r=6;t=2160` {
		t.Errorf("%s: ratelimit %v, error %v; want 6 remaining", checkMethod, got, err)
	}
}

func TestSubjectsOfHTTPHoldForCalls(t *testing.T) {
	clients, err := middleware.NewClients(middleware.ClientConfig{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		subject middleware.Subject
		want    string
	}{
		{middleware.APIKey("X-API-Key"), "key:s3cret"},
		{middleware.Path, "path:" + checkMethod},
		{clients.Subject, "addr:192.0.2.1"},
	} {
		asked := make(chan string, 1)
		client := serve(t, grpclimit.Config{
			Limiter: newLocal(t),
			Policy:  grpclimit.Always(perHour(2, shardlimit.FailOpen())),
			Subject: func(ctx context.Context, c grpclimit.Call) string {
				s := grpclimit.HTTP(tt.subject)(ctx, c)
				asked <- s
				return s
			},
		})
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", "s3cret", "x-forwarded-for", "198.51.100.7, 192.0.2.1")
		if _, err := check(ctx, client); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != tt.want {
			t.Errorf("subject %q, want %q", got, tt.want)
		}
	}
}

func TestFaultsOfAConfigAreNamed(t *testing.T) {
	_, err := grpclimit.New(grpclimit.Config{})
	for _, field := range []string{"Limiter", "Policy", "Subject"} {
		if err == nil || !strings.Contains(err.Error(), "shardlimit: "+field+": <nil>: is needed") {
			t.Errorf("New: %v, want it to name %s", err, field)
		}
	}
}
