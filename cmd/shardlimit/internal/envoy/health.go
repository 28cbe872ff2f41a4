package envoy

import (
	"context"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// health says whether requests should come, to those who ask time and again, as
// Envoy and Kubernetes do. Nobody can watch it.
type health struct {
	healthpb.UnimplementedHealthServer
	ready func(context.Context) bool
}

// Check says how the server is, "", or the rate limit service.
func (h *health) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	switch req.GetService() {
	case "", ratelimit.RateLimitService_ServiceDesc.ServiceName:
	default:
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if h.ready(ctx) {
		state = healthpb.HealthCheckResponse_SERVING
	}
	return &healthpb.HealthCheckResponse{Status: state}, nil
}
