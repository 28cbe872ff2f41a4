package envoy

import (
	"context"
	"net"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// Server serves Envoy's rate limit service, and gRPC's health and reflection
// services. It is safe for concurrent use. New makes one.
type Server struct{ grpc *grpc.Server }

// maxRequest is the largest request, in bytes: far above what Envoy sends.
const maxRequest = 1 << 20

// New returns a server.
func New(o Options) *Server {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest))
	ratelimit.RegisterRateLimitServiceServer(s, &service{Options: o})
	healthpb.RegisterHealthServer(s, &health{ready: o.Ready})
	reflection.Register(s)
	return &Server{s}
}

// Serve answers on l until Shutdown, and returns nil then. It closes l.
func (s *Server) Serve(l net.Listener) error { return s.grpc.Serve(l) }

// Shutdown takes no more requests, and returns when those under way are
// answered. When ctx ends before, it ends them, and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
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
