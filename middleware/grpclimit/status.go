package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
)

// fields returns what is told of a decision.
func fields(p *shardlimit.Policy, r shardlimit.Result) metadata.MD {
	h, md := http.Header{}, metadata.MD{}
	middleware.SetHeaders(h, p, r)
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	return md
}

// refused returns the status of a call about which nothing was decided. It says
// nothing of err that isn't the caller's own.
func refused(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.Is(err, shardlimit.ErrNoSubject):
		return status.Error(codes.InvalidArgument, "the call doesn't say whom to count it for")
	default:
		return status.Error(codes.Internal, "the call's quota can't be told")
	}
}

// denied returns the status of a denial, nil if r is none.
func denied(r shardlimit.Result) error {
	switch middleware.Status(r, nil) {
	case http.StatusOK:
		return nil
	case http.StatusServiceUnavailable:
		return later(codes.Unavailable, "the call's quota can't be told now", r)
	default:
		return later(codes.ResourceExhausted, "the call exceeds its quota", r)
	}
}

// later returns a status that says when to try again.
func later(code codes.Code, text string, r shardlimit.Result) error {
	s := status.New(code, text)
	detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	if err != nil { // it can't be encoded: better without
		return s.Err()
	}
	return detailed.Err()
}
