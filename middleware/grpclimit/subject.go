package grpclimit

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/shardlimit/shardlimit/middleware"
)

// Subject returns whom a call is counted for, or "" if it doesn't say.
type Subject func(context.Context, Call) string

// HTTP returns what a Subject of package middleware says of an HTTP request
// with the call's peer, its metadata as header fields, and its method as path:
//
//	grpclimit.HTTP(middleware.APIKey("x-api-key"))
//	grpclimit.HTTP(middleware.Join(clients.Subject, middleware.Path))
func HTTP(s middleware.Subject) Subject {
	return func(ctx context.Context, call Call) string { return s(request(ctx, call)) }
}

func request(ctx context.Context, call Call) *http.Request {
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: call.Method}, Header: http.Header{}}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = p.Addr.String()
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	return r.WithContext(ctx)
}
