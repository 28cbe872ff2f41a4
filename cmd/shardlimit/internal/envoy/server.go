package envoy

import (
	"context"
	"net"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// Server serves Envoy's rate limit service, and gRPC's health and reflection
// services. It is safe for concurrent use. New makes one.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
}

// maxRequest is the largest request, in bytes: far above what Envoy sends.
const maxRequest = 1 << 20

// New returns a server, which is not ready.
func New(o Options) *Server {
	s := &Server{
		grpc:   grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest)),
		health: health.NewServer(),
	}
	ratelimit.RegisterRateLimitServiceServer(s.grpc, &service{Options: o})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.SetReady(false)
	return s
}

// SetReady says to those who ask for the health whether requests should come.
// Those that come are answered all the same.
func (s *Server) SetReady(ready bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		state = healthpb.HealthCheckResponse_SERVING
	}
	for _, of := range []string{"", ratelimit.RateLimitService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(of, state)
	}
}

// Serve answers on l until Shutdown, and returns nil then. It closes l.
func (s *Server) Serve(l net.Listener) error { return s.grpc.Serve(l) }

// Shutdown takes no more requests, and returns when those under way are
// answered. When ctx ends before, it ends them, and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.grpc.GracefulStop()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-ended
		return ctx.Err()
	}
}
