package envoy

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	unit "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
)

// documented is a configuration of the reference's documentation, and what is
// said there of it.
type documented struct {
	config string
	run    func(t *testing.T, s *service)
}

// runAll runs each by itself. The bubble's clock stands at the begin of a
// window, and no time passes but where a test sleeps.
func runAll(t *testing.T, all map[string]documented) {
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(t, embedded(t, test.config)) })
		})
	}
}

// wantLimit asks until a request over the limit, which must be the one after n.
func wantLimit(t *testing.T, s *service, domain, d string, n int) {
	t.Helper()
	wantCodes(t, s, request(domain, d), times(n, "ok: ok", "over: over")...)
}

// wantNoLimit asks often, and wants a status that knows no limit.
func wantNoLimit(t *testing.T, s *service, domain, d string) {
	t.Helper()
	wantCodes(t, s, request(domain, d), times(599, "ok: ok", "ok: ok")...)
	if st := ask(t, s, request(domain, d)).Statuses[0]; st.CurrentLimit != nil || st.LimitRemaining != 0 {
		t.Errorf("%s: %v, want OK without a limit", d, st)
	}
}

// wantUnlimited asks often, and wants the status of an unlimited descriptor.
func wantUnlimited(t *testing.T, s *service, domain, d string) {
	t.Helper()
	wantCodes(t, s, request(domain, d), times(599, "ok: ok", "ok: ok")...)
	if left := ask(t, s, request(domain, d)).Statuses[0].LimitRemaining; left != math.MaxUint32 {
		t.Errorf("%s: limit_remaining %d, want %d", d, left, uint32(math.MaxUint32))
	}
}

// wantMetrics asks about each descriptor, and wants it counted under the name.
func wantMetrics(t *testing.T, s *service, domain string, names map[string]string) {
	t.Helper()
	got := map[string]string{}
	for d := range names {
		s.Count = func(h Hit) { got[d] = h.Descriptor }
		ask(t, s, request(domain, d))
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("counted under (-want +got)\n%s", diff)
	}
}

// wantShadow asks until more than the n that the limit has, and wants all to
// pass, and those beyond it counted.
func wantShadow(t *testing.T, s *service, domain, d string, n int) {
	t.Helper()
	var shadowed int
	s.Count = func(h Hit) {
		if h.Over && h.Shadow {
			shadowed++
		}
	}
	wantCodes(t, s, request(domain, d), times(n+6, "ok: ok", "ok: ok")...)
	if shadowed != 7 {
		t.Errorf("%d of %d counted as over a limit of %d, want 7", shadowed, n+7, n)
	}
}

// TestDocumentedExamples: the numbered examples of the README of
// envoyproxy/ratelimit, by their own keys, values and limits.
func TestDocumentedExamples(t *testing.T) {
	runAll(t, map[string]documented{
		"1: two values of a key": {`
domain: mongo_cps
descriptors:
  - {key: database, value: users, rate_limit: {unit: second, requests_per_unit: 500}}
  - {key: database, value: default, rate_limit: {unit: second, requests_per_unit: 500}}
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "mongo_cps", "database=users", 500)
			wantLimit(t, s, "mongo_cps", "database=default", 500)
			wantNoLimit(t, s, "mongo_cps", "database=other")
			wantNoLimit(t, s, "mongo_cps", "Database=users") // case counts
			time.Sleep(time.Second)
			wantLimit(t, s, "mongo_cps", "database=users", 500)
			wantMetrics(t, s, "mongo_cps", map[string]string{
				"database=users": "mongo_cps.database_users", "database=default": "mongo_cps.database_default",
			})
		}},
		"2: nested, several in a request": {`
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - {key: to_number, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: to_number, rate_limit: {unit: day, requests_per_unit: 100}}
`, func(t *testing.T, s *service) {
			both := request("messaging", "message_type=marketing,to_number=2061111111", "to_number=2061111111")
			wantCodes(t, s, both, times(5, "ok: ok ok", "over: over ok")...)
			wantLimit(t, s, "messaging", "message_type=marketing,to_number=2062222222", 5)
			wantLimit(t, s, "messaging", "to_number=2061111111", 94) // both charged 6, also the one that was over
			wantLimit(t, s, "messaging", "to_number=2062222222", 100)
			wantCodes(t, s, both, "over: over over")
			wantNoLimit(t, s, "messaging", "message_type=marketing")
			wantNoLimit(t, s, "messaging", "message_type=other,to_number=2061111111")
			time.Sleep(24 * time.Hour)
			wantCodes(t, s, both, "ok: ok ok")
			wantMetrics(t, s, "messaging", map[string]string{
				"message_type=marketing,to_number=2061111111": "messaging.message_type_marketing.to_number",
				"to_number=2061111111":                        "messaging.to_number",
			})
		}},
		"3: a value before any": {`
domain: edge_proxy_per_ip
descriptors:
  - {key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "edge_proxy_per_ip", "remote_address=50.0.0.5", 0)
			wantLimit(t, s, "edge_proxy_per_ip", "remote_address=50.0.0.1", 10)
			wantLimit(t, s, "edge_proxy_per_ip", "remote_address=50.0.0.2", 10)
		}},
		"4: other depths don't match": {`
domain: example4
descriptors:
  - {key: key, value: value, rate_limit: {unit: second, requests_per_unit: 300}}
`, func(t *testing.T, s *service) {
			wantNoLimit(t, s, "example4", "key=value,subkey=subvalue")
			wantLimit(t, s, "example4", "key=value", 300)
		}},
		"4: the same depth does": {`
domain: example4
descriptors:
  - key: key
    value: value
    descriptors:
      - {key: subkey, rate_limit: {unit: second, requests_per_unit: 300}}
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "example4", "key=value,subkey=subvalue", 300)
			wantNoLimit(t, s, "example4", "key=value")
		}},
		"5: unlimited": {`
domain: internal
descriptors:
  - {key: ldap, rate_limit: {unlimited: true}}
  - {key: azure, rate_limit: {unit: minute, requests_per_unit: 100}}
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "internal", "azure=a", 100)
			wantNoLimit(t, s, "internal", "other=a")
			if err := s.Limiter.Close(); err != nil { // it isn't asked
				t.Fatal(err)
			}
			wantUnlimited(t, s, "internal", "ldap=a")
			wantMetrics(t, s, "internal", map[string]string{"ldap=a": "internal.ldap"})
		}},
		"6: shadow": {`
domain: example6
descriptors:
  - key: service
    descriptors:
      - {key: user, value: user-a, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 10}}
      - {key: user, value: user-b, rate_limit: {unit: second, requests_per_unit: 20}}
`, func(t *testing.T, s *service) {
			wantShadow(t, s, "example6", "service=auth-service,user=user-a", 10)
			wantLimit(t, s, "example6", "service=auth-service,user=user-b", 20)
		}},
		"7: replaces": {`
domain: example7
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - {key: user, value: bkthomps, rate_limit: {name: specific_limit, unit: second, requests_per_unit: 5}}
  - key: key_2
    value: value_2
    descriptors:
      - {key: user, value: bkthomps, rate_limit: {replaces: [{name: specific_limit}], unit: second, requests_per_unit: 10}}
`, func(t *testing.T, s *service) {
			both := request("example7", "key_1=value_1,user=bkthomps", "key_2=value_2,user=bkthomps")
			wantCodes(t, s, both, times(10, "ok: ok ok", "over: ok over")...)
			wantLimit(t, s, "example7", "key_1=value_1,user=bkthomps", 5) // not charged before
			time.Sleep(time.Second)
			wantLimit(t, s, "example7", "key_2=value_2,user=bkthomps", 10)
		}},
		"8: detailed metrics": {`
domain: example8
descriptors:
  - {key: key1, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: key1, value: value1, rate_limit: {unit: minute, requests_per_unit: 20}}
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "example8", "key1=unspecified_value", 10)
			wantLimit(t, s, "example8", "key1=unspecified_value2", 10)
			wantLimit(t, s, "example8", "key1=value1", 20)
			wantMetrics(t, s, "example8", map[string]string{
				"key1=unspecified_value":  "example8.key1_unspecified_value",
				"key1=unspecified_value2": "example8.key1_unspecified_value2",
				"key1=value1":             "example8.key1_value1",
			})
		}},
		"8: without": {`
domain: example8
descriptors:
  - {key: key1, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: key1, value: value1, rate_limit: {unit: minute, requests_per_unit: 20}}
`, func(t *testing.T, s *service) {
			wantMetrics(t, s, "example8", map[string]string{
				"key1=unspecified_value": "example8.key1", "key1=unspecified_value2": "example8.key1",
				"key1=value1": "example8.key1_value1",
			})
		}},
	})
}

// TestDocumentedWildcards: the examples 9 and 11.
func TestDocumentedWildcards(t *testing.T) {
	runAll(t, map[string]documented{
		"9: at the end": {`
domain: example9
descriptors: [{key: key1, value: value*, rate_limit: {unit: minute, requests_per_unit: 20}}]
`, func(t *testing.T, s *service) {
			for _, d := range []string{"key1=value1", "key1=value2", "key1=valueXYZ"} {
				wantLimit(t, s, "example9", d, 20)
			}
			wantNoLimit(t, s, "example9", "key1=other")
		}},
		"9: in the middle": {`
domain: example9
descriptors: [{key: path, value: /api/*/action, rate_limit: {unit: minute, requests_per_unit: 20}}]
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "example9", "path=/api/123/action", 20)
			wantLimit(t, s, "example9", "path=/api/user-id/action", 20)
			wantNoLimit(t, s, "example9", "path=/api/123/other")
		}},
		"9: several": {`
domain: example9
descriptors: [{key: route, value: /api/*/resource/*/action, rate_limit: {unit: minute, requests_per_unit: 20}}]
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "example9", "route=/api/v1/resource/123/action", 20)
			wantLimit(t, s, "example9", "route=/api/v2/resource/456/action", 20)
			wantNoLimit(t, s, "example9", "route=/api/v1/action")
		}},
		"11: a threshold for all": {`
domain: example11
descriptors:
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: files_no_share, value: files_no_share/*, share_threshold: false, rate_limit: {unit: hour, requests_per_unit: 10}}
`, func(t *testing.T, s *service) {
			wantCodes(t, s, request("example11", "files=files/a.pdf"), times(4, "ok: ok", "ok: ok")...)
			wantCodes(t, s, request("example11", "files=files/b.csv"), times(4, "ok: ok", "ok: ok")...)
			wantCodes(t, s, request("example11", "files=files/c.txt"), "over: over")
			wantLimit(t, s, "example11", "files_no_share=files_no_share/a.pdf", 10)
			wantLimit(t, s, "example11", "files_no_share=files_no_share/b.csv", 10)
		}},
	})
}

// TestDocumentedMetrics: the example 10, and the metrics of 11.
func TestDocumentedMetrics(t *testing.T) {
	runAll(t, map[string]documented{
		"10: values in metrics": {`
domain: example10
descriptors:
  - key: route
    value_to_metric: true
    descriptors:
      - key: http_method
        value_to_metric: true
        descriptors: [{key: subject_id, rate_limit: {unit: minute, requests_per_unit: 60}}]
`, func(t *testing.T, s *service) {
			wantMetrics(t, s, "example10", map[string]string{
				"route=api,http_method=GET,subject_id=123":  "example10.route_api.http_method_GET.subject_id",
				"route=web,http_method=POST,subject_id=456": "example10.route_web.http_method_POST.subject_id",
			})
			wantLimit(t, s, "example10", "route=api,http_method=GET,subject_id=124", 60)
		}},
		"10: without": {`
domain: example10
descriptors:
  - key: route
    descriptors:
      - key: http_method
        descriptors: [{key: subject_id, rate_limit: {unit: minute, requests_per_unit: 60}}]
`, func(t *testing.T, s *service) {
			wantMetrics(t, s, "example10", map[string]string{
				"route=api,http_method=GET,subject_id=123":  "example10.route.http_method.subject_id",
				"route=web,http_method=POST,subject_id=456": "example10.route.http_method.subject_id",
			})
		}},
		"10: of a wildcard": {`
domain: example10_wildcard
descriptors:
  - key: user
    value_to_metric: true
    descriptors:
      - key: action
        value: read*
        value_to_metric: true
        descriptors: [{key: resource, rate_limit: {unit: minute, requests_per_unit: 100}}]
`, func(t *testing.T, s *service) {
			wantMetrics(t, s, "example10_wildcard", map[string]string{
				"user=alice,action=readfile,resource=documents": "example10_wildcard.user_alice.action_readfile.resource",
			})
			wantLimit(t, s, "example10_wildcard", "user=bob,action=readfile,resource=documents", 100)
			wantNoLimit(t, s, "example10_wildcard", "user=bob,action=write,resource=documents")
		}},
		// The reference names what stands before the *; here it is the value as it
		// is configured, and the method only where it is asked for, as in 10.
		"11: of a threshold for all": {`
domain: example11_metrics
descriptors:
  - key: route
    value: api/*
    share_threshold: true
    value_to_metric: true
    descriptors: [{key: method, rate_limit: {unit: minute, requests_per_unit: 60}}]
`, func(t *testing.T, s *service) {
			wantMetrics(t, s, "example11_metrics", map[string]string{
				"route=api/v1,method=GET": "example11_metrics.route_api/*.method",
				"route=api/v2,method=GET": "example11_metrics.route_api/*.method",
			})
			wantCodes(t, s, request("example11_metrics", "route=api/v3,method=GET"), times(58, "ok: ok", "over: over")...)
		}},
	})
}

// TestDocumentedConfigurations: the files in examples/ratelimit/config of
// envoyproxy/ratelimit, and what the README says of the requests to them.
func TestDocumentedConfigurations(t *testing.T) {
	runAll(t, map[string]documented{
		"config.yaml": {`
domain: mongo_cps
descriptors:
  - {key: database, value: users, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: database, value: default, rate_limit: {unit: minute, requests_per_unit: 5}}
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "mongo_cps", "database=users", 5)
			wantLimit(t, s, "mongo_cps", "database=default", 5)
		}},
		"example.yaml": {`
domain: rl
descriptors:
  - key: source_cluster
    value: proxy
    descriptors:
      - {key: destination_cluster, value: mock, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: foo
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors:
      - {key: bar, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: bar, value: banned, rate_limit: {unit: minute, requests_per_unit: 0}}
      - {key: baz, rate_limit: {unit: second, requests_per_unit: 1}}
      - {key: bay, rate_limit: {unlimited: true}}
      - {key: baz, value: shady, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: qux, rate_limit: {unlimited: true}}
`, func(t *testing.T, s *service) {
			wantLimit(t, s, "rl", "source_cluster=proxy,destination_cluster=mock", 1)
			wantLimit(t, s, "rl", "foo=foo", 2)
			wantLimit(t, s, "rl", "foo=foo,bar=bar", 3)
			wantLimit(t, s, "rl", "foo=foo,bar=banned", 0)
			wantLimit(t, s, "rl", "foo=foo,baz=baz", 1)
			wantLimit(t, s, "rl", "foo=foo,baz=not-so-shady", 1)
			wantUnlimited(t, s, "rl", "foo=foo,bay=bay")
			wantUnlimited(t, s, "rl", "qux=qux")
			wantShadow(t, s, "rl", "foo=foo,baz=shady", 1)
		}},
		"quota.yaml": {`
domain: quota
descriptors:
  - {key: service, value: service_1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: service, value: service_2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
`, func(t *testing.T, s *service) {
			wantCodes(t, s, request("quota", "service=service_1", "service=service_2"),
				"ok: ok ok", "ok: over ok", "over: over over")
			time.Sleep(time.Minute)
			wantLimit(t, s, "quota", "service=service_1", 1)
			wantLimit(t, s, "quota", "service=service_2", 2)
		}},
	})
}

// TestQuotasAndOtherLimitsRefuseApart: a quota that is full refuses nothing
// while another has room, a limit that isn't a quota does.
func TestQuotasAndOtherLimitsRefuseApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, `
domain: models
descriptors:
  - {key: service, value: small, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: service, value: large, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: client, rate_limit: {unit: minute, requests_per_unit: 2}}
`)
		wantCodes(t, s, request("models", "service=small", "service=large", "client=c"),
			"ok: ok ok ok", "ok: over ok ok", "over: over ok over")
	})
}

// TestDocumentedOverride: a limit that the request brings holds whatever the
// rule is, also where there is none, and without its shadow.
func TestDocumentedOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded(t, `
domain: example
descriptors: [{key: key1, value: value1, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}]
`)
		for _, d := range []string{"key1=value1", "key1=value1,key2=value2,key3=value3"} {
			r := request("example", d)
			r.Descriptors[0].Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: unit.RateLimitUnit_MINUTE}
			wantCodes(t, s, r, times(3, "ok: ok", "over: over")...)
		}
	})
}
