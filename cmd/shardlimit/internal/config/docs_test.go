package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
)

const example = "../../../../docs/daemon.yaml"

func TestTheExampleOfTheDocsLoadsAndItsDefaultsAreTheDefaults(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(example, text) // not the file that it names
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default().Server
	want.Listen.Envoy = ":8082" // there is no default
	want.Listen.AdminHosts = []string{"limits.internal"}
	if !cmp.Equal(c.Server.Listen, want.Listen) || c.Server.Log != want.Log {
		t.Errorf("the example has %+v and %+v; the defaults are %+v and %+v", c.Server.Listen, c.Server.Log, want.Listen, want.Log)
	}
	if p, by := c.Rules.Find("api", "partner:7"); by != "partner:*" || p.Limits()[0].Rate != 1000 {
		t.Errorf("partner:7 has %v by %q, want 1000/s by partner:*", p.Limits(), by)
	}
}

func TestTheExampleOfTheDocsHasEveryKey(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{
		"{'?': 1}", "listen: {'?': 1}", "log: {'?': 1}", "redis: {'?': 1}", "redis: {tls: {'?': 1}}", "breaker: {'?': 1}",
		"envoy: {'?': 1}", "authorize: {'?': 1}", "policies: [{'?': 1}]", "overrides: [{'?': 1}]",
	} {
		_, err := config.Parse("", []byte(section))
		_, keys, found := strings.Cut(err.Error(), "unknown key: want ")
		if !found {
			t.Fatalf("%s: %v", section, err)
		}
		keys, _, _ = strings.Cut(keys, "\n")
		for key := range strings.SplitSeq(strings.ReplaceAll(keys, " or ", ", "), ", ") {
			if !strings.Contains(string(text), key+":") {
				t.Errorf("%s: the example lacks %s", section, key)
			}
		}
	}
}
