package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// listening is what Prometheus says once it has a port.
var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:[1-9]\d*)`)

// startPrometheus starts one that scrapes the daemon every 200 ms and has the alert
// rules, and returns its URL.
func startPrometheus(t *testing.T, d *daemon) (*other, string) {
	t.Helper()
	rules, err := filepath.Abs(deploy + "prometheus/shardlimit.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	conf := testfile.New(t, "prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 200ms, evaluation_interval: 200ms, scrape_timeout: 200ms}
rule_files: [%q]
scrape_configs:
  - job_name: shardlimit
    static_configs: [{targets: [%q]}]
`, rules, strings.TrimPrefix(d.public, "http://")))
	p := startOther(t, "prometheus", "--config.file="+conf, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address=127.0.0.1:0")
	var address string
	p.until("it listened", func() bool {
		if m := listening.FindStringSubmatch(p.said()); m != nil {
			address = m[1]
		}
		return address != ""
	})
	return p, "http://" + address
}

// data returns what Prometheus answers.
func data(t *testing.T, d *daemon, url string, into any) bool {
	t.Helper()
	status, text, err := d.try("GET", url, "")
	if err != nil || status != 200 { // it isn't ready yet
		return false
	}
	answer := struct{ Data any }{into}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %v: %s", url, err, text)
	}
	return true
}

func TestPrometheusCountsDecisionsBySource(t *testing.T) {
	cluster := redistest.Shared(t)
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--prefix="+redistest.Prefix(t), patient, "--policy=api=3/h")
	for subject := range 5 {
		d.wants(200, "POST", d.public+"/v1/check", fmt.Sprintf(`{"policy":"api","subject":"user:%d","cost":2}`, subject))
	}
	d.wants(200, "POST", d.public+"/v1/check", `{"policy":"api","subject":"user:1","cost":2}`)
	prometheus, at := startPrometheus(t, d)

	const query = `sum by (source, outcome) (shardlimit_decisions_total{policy="api"})`
	var got struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	prometheus.until("it had scraped", func() bool {
		return data(t, d, at+"/api/v1/query?query="+url.QueryEscape(query), &got) && len(got.Result) > 0
	})
	counts := map[string]any{}
	for _, r := range got.Result {
		if r.Value[1] != "0" {
			counts[r.Metric["source"]+" "+r.Metric["outcome"]] = r.Value[1]
		}
	}
	if len(counts) != 2 || counts["redis allowed"] != "5" || counts["redis denied"] != "1" {
		t.Errorf("%s: %v; want 5 allowed and 1 denied by Redis", query, counts)
	}

	if want, loaded := alertsOf(t), alertsAt(t, d, at); len(want) == 0 || strings.Join(want, " ") != strings.Join(loaded, " ") {
		t.Errorf("Prometheus has the alerts %q, want %q", loaded, want)
	}
}

// alertsOf returns the alerts of the file, in its order.
func alertsOf(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(deploy + "prometheus/shardlimit.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Groups[0].Rules {
		names = append(names, r.Alert)
	}
	return names
}

// alertsAt returns those that Prometheus has loaded and can work out.
func alertsAt(t *testing.T, d *daemon, at string) (names []string) {
	t.Helper()
	var got struct {
		Groups []struct {
			Rules []struct{ Name, Type, LastError string }
		}
	}
	if !data(t, d, at+"/api/v1/rules", &got) {
		t.Fatal("Prometheus doesn't say what rules it has")
	}
	for _, g := range got.Groups {
		for _, r := range g.Rules {
			if r.LastError != "" {
				t.Errorf("rule %s: %s", r.Name, r.LastError)
			}
			names = append(names, r.Name)
		}
	}
	return names
}
