package serve

import (
	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/api"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy"
)

// envoy returns the server that Envoy asks. It is ready when the API is.
func (o *Options) envoy(limiter *shardlimit.Limiter, a *api.API, hits *envoy.Hits) *envoy.Server {
	return envoy.New(envoy.Options{Limiter: limiter, Rules: o.envoyRules, Ready: a.Ready, Count: hits.Count})
}

// headers are the sets of fields by their names in the configuration.
var headers = map[string]envoy.Headers{
	"none": envoy.NoHeaders, "draft": envoy.DraftHeaders, "reference": envoy.ReferenceHeaders,
}

// envoyRules returns what Envoy is answered by now.
func (o *Options) envoyRules() envoy.Rules {
	e := &o.File.Now().Envoy
	return envoy.Rules{Domains: e.Domains, HandOver: e.HandOver, Shadow: e.Shadow, Headers: headers[e.Headers]}
}
