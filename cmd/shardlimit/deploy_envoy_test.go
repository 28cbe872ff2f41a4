package main

import (
	"os"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	limit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
)

// envoyBootstrap returns the configuration of Envoy in deploy/, as Envoy would
// read it.
func envoyBootstrap(t *testing.T) *bootstrap.Bootstrap {
	t.Helper()
	text, err := os.ReadFile("../../deploy/envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	json, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	b := &bootstrap.Bootstrap{}
	if err := protojson.Unmarshal(json, b); err != nil { // which refuses unknown fields and types
		t.Fatal(err)
	}
	if err := b.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return b
}

// unpack puts what is in a into m, which must be valid.
func unpack[M interface {
	proto.Message
	ValidateAll() error
}](t *testing.T, a *anypb.Any, m M,
) M {
	t.Helper()
	if err := a.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	if err := m.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTheEnvoyConfigurationOfDeployIsValidAndMeetsItsLimits: what Envoy is told
// to ask has rules.
func TestTheEnvoyConfigurationOfDeployIsValidAndMeetsItsLimits(t *testing.T) {
	b := envoyBootstrap(t)
	filter := b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0]
	m := unpack(t, filter.GetTypedConfig(), &manager.HttpConnectionManager{})
	asks := unpack(t, m.GetHttpFilters()[0].GetTypedConfig(), &limit.RateLimit{})
	unpack(t, m.GetHttpFilters()[1].GetTypedConfig(), &router.Router{})
	service := b.GetStaticResources().GetClusters()[1]
	for _, options := range service.GetTypedExtensionProtocolOptions() {
		unpack(t, options, &upstream.HttpProtocolOptions{})
	}
	if name := asks.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName(); name != service.GetName() {
		t.Errorf("the filter asks cluster %q, want %q", name, service.GetName())
	}

	c, _, err := config.Source{Flags: config.Default(), Envoy: "../../deploy/envoy/limits"}.Read()
	if err != nil {
		t.Fatal(err)
	}
	example := map[string]string{"path": "/reports/1", "remote_address": "192.0.2.1", "api_key": "k"}
	for _, l := range m.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetRateLimits() {
		var entries []domains.Entry
		for _, a := range l.GetActions() {
			key := "remote_address"
			if h := a.GetRequestHeaders(); h != nil {
				key = h.GetDescriptorKey()
			}
			entries = append(entries, domains.Entry{Key: key, Value: example[key]})
		}
		if _, found := c.Envoy.Domains.Find(asks.GetDomain(), entries); !found {
			t.Errorf("no rule in %s for %v", asks.GetDomain(), entries)
		}
	}
}
