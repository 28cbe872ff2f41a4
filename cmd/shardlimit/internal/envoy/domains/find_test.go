package domains_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
)

const shop = `
domain: shop
descriptors:
  - key: client
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: client
    value: good
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: path
    value: /pay/card*
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: path
    value: /pay/*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 4}
    descriptors:
      - key: method
        value_to_metric: true
        rate_limit: {unit: minute, requests_per_unit: 5}
      - key: method
        value: P*
        rate_limit: {unit: minute, requests_per_unit: 6}
  - {key: file, value: a*a, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: file, value: "*.go", rate_limit: {unit: minute, requests_per_unit: 11}}
  - {key: file, value: b*1**2*c, rate_limit: {unit: minute, requests_per_unit: 12}}
  - {key: file, value: c*x*x, share_threshold: true, value_to_metric: true, rate_limit: {unit: minute, requests_per_unit: 13}}
  - key: tenant
    descriptors:
      - key: user
        detailed_metric: true
        rate_limit: {unit: minute, requests_per_unit: 7}
  - key: code
    value: 404
    rate_limit: {unit: hour, requests_per_unit: 8}
`

// parse returns the set that the text is of.
func parse(t *testing.T, text string) *domains.Set {
	t.Helper()
	s, err := domains.Parse([]domains.File{{Path: "f", Text: []byte(text)}}, domains.Default())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// entries returns keys and values, in turn, as entries.
func entries(words ...string) []domains.Entry {
	var all []domains.Entry
	for i := 0; i < len(words); i += 2 {
		all = append(all, domains.Entry{Key: words[i], Value: words[i+1]})
	}
	return all
}

func TestFindTakesTheMostSpecificRuleOfTheSameDepth(t *testing.T) {
	s := parse(t, shop)
	for _, tt := range []struct {
		descriptor      []domains.Entry
		requests        uint32 // 0: none is found
		subject, metric string
	}{
		{entries("client", "any"), 1, "client=any", "shop.client"},
		{entries("client", ""), 1, "client=", "shop.client"},
		{entries("client", "good"), 2, "client=good", "shop.client_good"},
		{entries("Client", "good"), 0, "", ""},
		{entries("client", "good", "path", "/"), 0, "", ""},
		{entries("path", "/pay/card/1"), 3, "path=/pay/card/1", "shop.path_/pay/card*"},
		{entries("path", "/pay/"), 4, "path=/pay/*", "shop.path_/pay/*"},
		{entries("path", "/pay/bank"), 4, "path=/pay/*", "shop.path_/pay/*"},
		{entries("path", "/pay"), 0, "", ""},
		{entries("path", "/pay/bank", "method", "GET"), 5, "path=/pay/*,method=GET", "shop.path_/pay/*.method_GET"},
		{entries("path", "/pay/bank", "method", "POST"), 6, "path=/pay/*,method=POST", "shop.path_/pay/*.method_P*"},
		{entries("path", "/pay/card", "method", "GET"), 0, "", ""}, // the first wildcard that covers it counts
		{entries("file", "aa"), 10, "file=aa", "shop.file_a*a"},
		{entries("file", "a/b/a"), 10, "file=a/b/a", "shop.file_a*a"},
		{entries("file", "a"), 0, "", ""}, // one letter isn't both ends
		{entries("file", "ab"), 0, "", ""},
		{entries("file", ".go"), 11, "file=.go", "shop.file_*.go"},
		{entries("file", "a.go"), 11, "file=a.go", "shop.file_*.go"},
		{entries("file", "a.go1"), 0, "", ""},
		{entries("file", "b12c"), 12, "file=b12c", "shop.file_b*1**2*c"},
		{entries("file", "b0102c0c"), 12, "file=b0102c0c", "shop.file_b*1**2*c"},
		{entries("file", "b21c"), 0, "", ""}, // in another order
		{entries("file", "cx"), 0, "", ""},
		{entries("file", "cxx"), 13, `file=c*x*x`, "shop.file_c*x*x"},
		{entries("file", "c0x0x"), 13, `file=c*x*x`, "shop.file_c*x*x"},
		{entries("tenant", "t"), 0, "", ""},
		{entries("tenant", "t", "user", "u"), 7, "tenant=t,user=u", "shop.tenant_t.user_u"},
		{entries("code", "404"), 8, "code=404", "shop.code_404"},
		{entries(), 0, "", ""},
	} {
		m, found := s.Find("shop", tt.descriptor)
		if found != (tt.requests != 0) {
			t.Errorf("Find(%v): found %t, want %t", tt.descriptor, found, !found)
			continue
		}
		if !found {
			continue
		}
		got := []any{m.Rule.Limit.Requests, m.Subject, m.Metric}
		if diff := cmp.Diff([]any{tt.requests, tt.subject, tt.metric}, got); diff != "" {
			t.Errorf("Find(%v): (-want +got)\n%s", tt.descriptor, diff)
		}
	}
	if _, found := s.Find("shops", entries("client", "any")); found {
		t.Error("Find in a domain that isn't configured: found a rule")
	}
}

func TestSubjectsOfDifferentEntriesDiffer(t *testing.T) {
	s := parse(t, `{domain: d, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1},
		descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]}]}`)
	seen := map[string][]domains.Entry{}
	for _, e := range [][]domains.Entry{
		entries("a", "1", "b", "2"), entries("a", "1,b=2"), entries("a", `1\`, "b", "2"), entries("a", `1\,b=2`),
		entries("a", "1=b", "b", ""), entries("a", "1=b,b="), entries("a", ""), entries("a", "", "b", ""),
	} {
		m, found := s.Find("d", e)
		if !found {
			t.Fatalf("Find(%q): none", e)
		}
		if other, known := seen[m.Subject]; known {
			t.Errorf("%q and %q have the subject %q in common", e, other, m.Subject)
		}
		seen[m.Subject] = e
	}
}

func TestALimitOfARequestCountsAsTheRuleThatItStandsInFor(t *testing.T) {
	s := parse(t, shop)
	bring := func(words ...string) domains.Match {
		t.Helper()
		m, found, err := s.FindOr("shop", entries(words...), domains.Limit{Requests: 9, Unit: 4})
		if err != nil || !found {
			t.Fatalf("FindOr: found %t, error %v", found, err)
		}
		return m
	}
	rule, _ := s.Find("shop", entries("client", "good"))
	for _, tt := range []struct {
		words         []string
		name, subject string
	}{
		{[]string{"client", "good"}, rule.Rule.Policy.Name(), rule.Subject},
		{[]string{"client", "any"}, "envoy.shop.client", "client=any"},
		{[]string{"else", "any"}, "envoy.shop", "else=any"},
		{[]string{"tenant", "t"}, "envoy.shop", "tenant=t"},
	} {
		m := bring(tt.words...)
		got := []any{m.Rule.Policy.Name(), m.Subject, m.Rule.Limit.Requests, m.Rule.Policy.Limits()[0].Rate}
		if diff := cmp.Diff([]any{tt.name, tt.subject, uint32(9), int64(9)}, got); diff != "" {
			t.Errorf("FindOr(%v): (-want +got)\n%s", tt.words, diff)
		}
	}
	if _, found, _ := s.FindOr("shops", entries("client", "good"), domains.Limit{Requests: 9, Unit: 4}); found {
		t.Error("FindOr in a domain that isn't configured: found a rule")
	}
	if _, _, err := s.FindOr("shop", entries("client", "good"), domains.Limit{Requests: 9}); err == nil {
		t.Error("FindOr of a limit without a unit: no error")
	}
}

func TestPoliciesHaveTheNamesOfTheirDescriptors(t *testing.T) {
	s := parse(t, `
domain: edge
descriptors:
  - {key: a, value: b-1, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a, value: b/1, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a-key-that-is-rather-long, value: with-a-value-that-is-even-longer-than-it-1, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a-key-that-is-rather-long, value: with-a-value-that-is-even-longer-than-it-2, rate_limit: {unit: day, requests_per_unit: 1}}
`)
	long := "a-key-that-is-rather-long"
	for _, tt := range []struct{ key, value, want string }{
		{"a", "b-1", "envoy.edge.a_b-1"},
		{"a", "b/1", "envoy.edge.a_b_1.SQBnudht2B"},
		{long, "with-a-value-that-is-even-longer-than-it-1", "envoy.edge.a-key-that-is-rather-long_with-a-value-tha.gb7SPj1-5q"},
		{long, "with-a-value-that-is-even-longer-than-it-2", "envoy.edge.a-key-that-is-rather-long_with-a-value-tha.TgFP50FjCS"},
	} {
		m, _ := s.Find("edge", entries(tt.key, tt.value))
		if got := m.Rule.Policy.Name(); got != tt.want {
			t.Errorf("name of the policy of %s %s: %q, want %q", tt.key, tt.value, got, tt.want)
		}
	}
}
