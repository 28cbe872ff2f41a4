package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

const full = `
listen:
  public: 127.0.0.1:9000
  admin: "127.0.0.1:9001"
  admin_hosts: [limits.shop, "[fd00::7]"]
  envoy: "127.0.0.1:9002"
  read_timeout: 3s
admin_token_file: /run/token
log: {format: json, level: debug}
redis:
  nodes: ["rediss://10.0.0.1:6379", "rediss://10.0.0.2:6379"]
  prefix: shop
  user: limiter
  password_file: /run/password
  tls:
    ca_file: /etc/ca.pem
    cert_file: /etc/cert.pem
    key_file: /etc/key.pem
    server_name: redis.shop
timeout: 20ms
subject_key_file: /run/subject-key
breaker: {failure_ratio: 0.4, min_calls: 10, window: 2s, probe_interval: 50ms}
envoy:
  config: /etc/limits
  algorithm: sliding_window
  on_failure: local 0.5
  timeout: 7ms
  leases: off
  headers: draft
  shadow_mode: true
  merge_domains: true
authorize:
  policy: api
  policy_header: X-Policy
  subject_headers: [X-Api-Key, X-Real-IP]
  denied_status: 403
policies:
  - name: api
    limits: &api [100/s burst 200, 5000/h]
    on_failure: closed
    timeout: 10ms
  - name: login
    limits: [5/15m sliding_log]
  - {name: copy, limits: *api}
overrides:
  - policy: api
    subjects: [vip, "partner:*"]
    limits: [1000/s, 50000/h]
`

func TestAFullFileIsReadToTheLastKey(t *testing.T) {
	c, err := config.Parse("full.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Server{
		Listen:         config.Listen{Public: "127.0.0.1:9000", Admin: "127.0.0.1:9001", AdminHosts: []string{"limits.shop", "[fd00::7]"}, Envoy: "127.0.0.1:9002", ReadTimeout: 3 * time.Second},
		AdminTokenFile: "/run/token",
		Log:            config.Log{Format: "json", Level: "debug"},
		Redis: config.Redis{
			Nodes: []string{"rediss://10.0.0.1:6379", "rediss://10.0.0.2:6379"}, Prefix: "shop",
			User: "limiter", PasswordFile: "/run/password",
			TLS: config.TLS{
				CAFile: "/etc/ca.pem", CertFile: "/etc/cert.pem", KeyFile: "/etc/key.pem",
				ServerName: "redis.shop",
			},
		},
		Timeout:        20 * time.Millisecond,
		SubjectKeyFile: "/run/subject-key",
		EnvoyPath:      "/etc/limits",
		Breaker: shardlimit.BreakerConfig{
			FailureRatio: 0.4, MinCalls: 10, Window: 2 * time.Second, ProbeInterval: 50 * time.Millisecond,
		},
	}
	if diff := cmp.Diff(want, c.Server); diff != "" {
		t.Errorf("Server: (-want +got)\n%s", diff)
	}
	authorize := config.Authorize{
		Policy: "api", PolicyHeader: "X-Policy", SubjectHeaders: []string{"X-Api-Key", "X-Real-IP"}, DeniedStatus: 403,
	}
	if diff := cmp.Diff(authorize, c.Authorize); diff != "" {
		t.Errorf("Authorize: (-want +got)\n%s", diff)
	}
	settings := domains.Settings{
		Algorithm: shardlimit.SlidingWindow, OnFailure: shardlimit.FailLocal(0.5), Timeout: 7 * time.Millisecond,
		Leases: shardlimit.LeaseOff, Merge: true,
	}
	if e := c.Envoy; e.Settings != settings || e.HandOver || !e.Shadow || e.Headers != "draft" {
		t.Errorf("Envoy: %+v, want the settings %+v, shadow and draft", e, settings)
	}
	limits := map[string][]shardlimit.Limit{}
	for _, subject := range []string{"anyone", "vip", "partner:7"} {
		p, _ := c.Rules.Find("api", subject)
		limits[subject] = p.Limits()
	}
	many := []shardlimit.Limit{shardlimit.PerSecond(1000), shardlimit.PerHour(50000)}
	few := []shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(200), shardlimit.PerHour(5000)}
	if diff := cmp.Diff(map[string][]shardlimit.Limit{"anyone": few, "vip": many, "partner:7": many}, limits); diff != "" {
		t.Errorf("limits of api by subject: (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"api", "copy", "login"}, c.Rules.Names()); diff != "" {
		t.Errorf("Names: (-want +got)\n%s", diff)
	}
}

func TestWhatAFileLeavesOutHasDefaults(t *testing.T) {
	c, err := config.Parse("", []byte("log:\npolicies: [{name: api, limits: [1/s]}]"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default().Server, c.Server); diff != "" {
		t.Errorf("Server: (-want +got)\n%s", diff)
	}
}

// ok is the rest of a file of which the first lines are at fault.
const ok = "policies: [{name: api, limits: [1/s]}]\n"

func TestFaultsNameLineColumnAndField(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", `f:1:1: policies: must name at least one policy`},
		{"polices: []\n" + ok, `f:1:1: polices: unknown key: want admin_token_file, authorize, breaker, envoy, listen, log, overrides, policies, redis, subject_key_file or timeout`},
		{"listen: {pubic: ':80'}\n" + ok, `f:1:10: listen.pubic: unknown key: want admin, admin_hosts, envoy, public or read_timeout`},
		{"listen: {public: '80'}\n" + ok, `f:1:18: listen.public: "80" must be host:port or :port`},
		{"listen: {public: ':99999'}\n" + ok, `f:1:18: listen.public: ":99999" must be host:port or :port`},
		{"listen: {public: ':http'}\n" + ok, `f:1:18: listen.public: ":http" must be host:port or :port`},
		{"listen: {admin: 'unix:/run/a'}\n" + ok, `f:1:17: listen.admin: "unix:/run/a" must be host:port or :port`},
		{"listen: {admin_hosts: ['a:80']}\n" + ok, `f:1:24: listen.admin_hosts[0]: "a:80" must match ^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)$`},
		{"listen: {read_timeout: soon}\n" + ok, `f:1:24: listen.read_timeout: "soon" must be a duration above 0, as in 50ms or 1m30s`},
		{"timeout: 50\n" + ok, `f:1:10: timeout: 50 must be text: put it in quotes`},
		{"timeout: -1s\n" + ok, `f:1:10: timeout: "-1s" must be a duration above 0, as in 50ms or 1m30s`},
		{"log: {level: loud}\n" + ok, `f:1:14: log.level: "loud" must be debug, info, warn or error`},
		{"log: text\n" + ok, `f:1:6: log: must be a mapping, with format or level`},
		{"redis: {nodes: [nowhere]}\n" + ok, `f:1:17: redis.nodes[0]: must be host:port, or a redis:// or rediss:// URL of a host and a port`},
		{"redis: {nodes: [':6379', 'h:65536', 'rediss://h:65536', 'redis://h']}\n" + ok, strings.Join([]string{
			`f:1:16: redis.nodes: must not have redis:// and rediss:// side by side: TLS is spoken to all, or to none`,
			`f:1:17: redis.nodes[0]: must be host:port, or a redis:// or rediss:// URL of a host and a port`,
			`f:1:26: redis.nodes[1]: must be host:port, or a redis:// or rediss:// URL of a host and a port`,
			`f:1:37: redis.nodes[2]: must be host:port, or a redis:// or rediss:// URL of a host and a port`,
		}, "\n")},
		{"redis: {prefix: 'a b'}\n" + ok, "f:1:17: redis.prefix: \"a b\" must match ^[A-Za-z0-9_.:-]{1,64}$"},
		{"redis: {tls: {cert_file: a}}\n" + ok, `f:1:14: redis.tls: must have both of cert_file and key_file, or neither`},
		{"redis: {single: maybe}\n" + ok, `f:1:17: redis.single: maybe must be true or false`},
		{"redis: {single: true, nodes: ['a:1', 'b:1']}\n" + ok, `f:1:8: redis: must have one of nodes where it is single, and has 2`},
		{"breaker: {failure_ratio: 2}\n" + ok, `f:1:26: breaker.failure_ratio: 2 must be a number above 0 and at most 1`},
		{"breaker: {min_calls: -1}\n" + ok, `f:1:22: breaker.min_calls: -1 must be a whole number from 1 to 1000000`},
		{"envoy: {algorithm: leaky}\n" + ok, `f:1:20: envoy.algorithm: "leaky" must be fixed_window, sliding_window, sliding_log, token_bucket or gcra`},
		{"envoy: {on_failure: deny}\n" + ok, `f:1:21: envoy.on_failure: "deny" must be open, closed, or local and a share, as in local 0.1`},
		{"envoy: {on_failure: local 2}\n" + ok, `f:1:21: envoy.on_failure: "local 2" must have a share above 0 and at most 1`},
		{"envoy: {on_failure: local nan}\n" + ok, `f:1:21: envoy.on_failure: "local nan" must have a share above 0 and at most 1`},
		{"envoy: {headers: all}\n" + ok, `f:1:18: envoy.headers: "all" must be none, draft or reference`},
		{"authorize: {policy: apis}\n" + ok, `f:1:21: authorize.policy: "apis" is none of the policies, or one at fault`},
		{"authorize: {denied_status: 200}\n" + ok, `f:1:28: authorize.denied_status: 200 must be a whole number from 400 to 499`},
		{"authorize: {subject_headers: [ok, 'X Y']}\n" + ok, "f:1:35: authorize.subject_headers[1]: \"X Y\" must match ^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"},
		{"policies: {}", `f:1:11: policies: must be a list` + "\n" + `f:1:11: policies: must name at least one policy`},
		{"policies: []", `f:1:11: policies: must name at least one policy`},
		{"policies: [{name: a b, limits: [1/s]}]", `f:1:19: policies[0].name: "a b" must match ^[A-Za-z0-9_.-]{1,64}$`},
		{"policies: [{name: envoy.a, limits: [1/s]}]", `f:1:19: policies[0].name: "envoy.a" begins as the names of Envoy's rules do`},
		{"policies: [{limits: [1/s]}, {limits: [1/s]}, ~]", "f:1:12: policies[0].name: \"\" must match ^[A-Za-z0-9_.-]{1,64}$\n" +
			"f:1:29: policies[1].name: \"\" must match ^[A-Za-z0-9_.-]{1,64}$\n" +
			"f:1:46: policies[2]: must be a mapping, with leases, limits, name, on_failure, parts, shadow or timeout"},
		{"policies: [{name: 5, limits: [1/s]}]", `f:1:19: policies[0].name: 5 must be text: put it in quotes`},
		{"policies: [{name: api}]", `f:1:12: policies[0].limits: 0 limits: must be 1 to 8`},
		{"policies: [{name: api, limits: 1/s}]", `f:1:32: policies[0].limits: must be a list`},
		{"policies: [{name: api, limits: [1/s, often]}]", `f:1:38: policies[0].limits[1]: "often" has no slash: want N/duration [burst N] [algorithm]`},
		{"policies: [{name: api, limits: [0/s]}]", `f:1:33: policies[0].limits[0]: 0 must be 1 to 1000000000`},
		{"policies: [{name: api, limits: [1/s, 1/s]}]", `f:1:38: policies[0].limits[1]: 1/s is there already`},
		{"policies: [{name: api, limits: [1/s], on_failure: panic}]", `f:1:51: policies[0].on_failure: "panic" must be open, closed, or local and a share, as in local 0.1`},
		{"policies: [{name: api, limits: [1/s], on_failure: local}]", `f:1:51: policies[0].on_failure: "local" must be open, closed, or local and a share, as in local 0.1`},
		{"policies: [{name: api, limits: [1/s], on_failure: local 2}]", `f:1:51: policies[0].on_failure: "local 2" must have a share above 0 and at most 1`},
		{"policies: [{name: api, limits: [9/s], on_failure: local 0.1}]", `f:1:51: policies[0].on_failure: local 0.1 leaves less than one unit of Limits[0], 9/s`},
		{"policies: [{name: api, limits: [1/s], leases: of}]", `f:1:47: policies[0].leases: "of" must be auto or off`},
		{"policies: [{name: api, limits: [8/s], parts: 1}]", `f:1:46: policies[0].parts: 1 must be 2 to 64; 0 means that nothing is split`},
		{"policies: [{name: api, limits: [8/s], parts: 4}]", `f:1:46: policies[0].parts: 4 leaves less than 4 units a part of Limits[0], 8/s`},
		{"policies: [{name: api, limits: [1/s], shadow: yes}]", `f:1:47: policies[0].shadow: yes must be true or false`},
		{"policies: [{name: api, limits: [1/s]}, {name: api, limits: [2/s]}]", `f:1:40: policies[1].name: "api" is another policy's name`},
		{ok + "overrides: [{policy: apis, subjects: [a], limits: [2/s]}]", `f:2:22: overrides[0].policy: "apis" is none of the policies`},
		{ok + "overrides: [7, {subjects: [a, ''], limits: [2/s]}]", "f:2:13: overrides[0]: must be a mapping, with limits, policy or subjects\n" +
			"f:2:16: overrides[1].policy: \"\" is none of the policies\nf:2:31: overrides[1].subjects[1]: must not be empty"},
		{ok + "overrides: [{policy: api, limits: [2/s]}]", `f:2:13: overrides[0].subjects: must name at least one subject`},
		{ok + "overrides: [{policy: api, subjects: [7], limits: [2/s]}]", `f:2:38: overrides[0].subjects[0]: 7 must be text: put it in quotes`},
		{ok + "overrides: [{policy: api, subjects: [a]}]", `f:2:13: overrides[0].limits: 0 limits: must be 1 to 8`},
		{ok + "  - bad", `f:2:3: value is not allowed in this context`},
		{"a: [", `f:1:4: sequence end token ']' not found`},
		{ok + ok, `f:2:1: mapping key "policies" already defined at [1:1]`},
		{ok + "---\n" + ok, `f:1:1: must be one document, without a --- in between`},
	} {
		_, err := config.Parse("f", []byte(tt.text))
		if faults, ok := errors.AsType[yamldoc.FileError](err); !ok || faults.Error() != tt.want {
			t.Errorf("Parse(%q):\ngot  %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

func TestAllFaultsAreReportedAtOnceInTheOrderOfTheFile(t *testing.T) {
	_, err := config.Parse("f", []byte(`overrides:
  - {policy: api, subjects: ["*"], limits: [no]}
policies:
  - name: api
    limits: [0/s, 1/s, 2/y]
    burst: 5
  - name: not a name
    limits: [1/s]
redis: {tsl: {}}
`))
	want := `f:2:45: overrides[0].limits[0]: "no" has no slash: want N/duration [burst N] [algorithm]
f:5:14: policies[0].limits[0]: 0 must be 1 to 1000000000
f:5:24: policies[0].limits[2]: "2/y" has a duration that isn't a number and ms, s, m, h or d: "y"
f:6:5: policies[0].burst: unknown key: want leases, limits, name, on_failure, parts, shadow or timeout
f:7:11: policies[1].name: "not a name" must match ^[A-Za-z0-9_.-]{1,64}$
f:9:9: redis.tsl: unknown key: want nodes, password_file, prefix, single, tls or user`
	if faults, ok := errors.AsType[yamldoc.FileError](err); !ok || faults.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestFaultsDoNotShowPasswords(t *testing.T) {
	const text = "redis: {nodes: ['redis://limiter:hunter2@', 'http://limiter:hunter2@h:1']}\n" + ok
	_, err := config.Parse("f", []byte(text))
	faults, isFaults := errors.AsType[yamldoc.FileError](err)
	if !isFaults || len(faults) != 2 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("faults %v: want two, without the password", err)
	}
}

func TestLoadSaysWhyThereIsNoFile(t *testing.T) {
	if _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of no file = %v, want os.ErrNotExist", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add("policies: [*a, &a b]")
	f.Add("policies: &a [*a]\noverrides: *a")
	f.Add("\ufeff%YAML 1.2\n---\npolicies: !!seq [&a !x {}, *a]")
	f.Add("&a policies: {? [a]: b}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("f", []byte(text))
		if (c == nil) == (err == nil) {
			t.Errorf("Parse(%q) = %v, %v: want one of them", text, c, err)
		}
	})
}

func TestEnvoysLimitsAreReadWithTheFileThatNamesThem(t *testing.T) {
	limits := testfile.New(t, "limits.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 2}}]\n")
	path := testfile.New(t, "config.yaml", "envoy: {config: "+limits+", algorithm: token_bucket}\n") // policies aren't needed
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	m, found := c.Envoy.Domains.Find("d", []domains.Entry{{Key: "k", Value: "v"}})
	if want := shardlimit.Per(2, 24*time.Hour); !found || m.Rule.Policy.Limits()[0] != want || !c.Envoy.HandOver {
		t.Errorf("found %t, %+v; want %v, and Envoy to decide on failure", found, m.Rule, want)
	}
	testfile.Write(t, limits, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: eon, requests_per_unit: 2}}]\n")
	want := limits + ":2:43: descriptors[0].rate_limit.unit: \"eon\" must be second, minute, hour, day, week, month or year"
	if _, err := config.Load(path); err == nil || err.Error() != want {
		t.Errorf("Load with a fault in the limits: %v, want %s", err, want)
	}
	other := testfile.New(t, "other.yaml", "domain: e")
	c, _, err = config.Source{Path: path, Envoy: other}.Read()
	if err != nil || c.Server.EnvoyPath != other || len(c.Envoy.Domains.Names()) != 1 {
		t.Errorf("with other limits: %v, %+v", err, c)
	}
}

func TestAliasesAreReadInTheOrderOfTheFile(t *testing.T) {
	c, err := config.Parse("f", []byte("overrides: [{policy: api, subjects: [vip], limits: &many [9/s]}]\npolicies: [{name: api, limits: *many}]"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Rules.Policy("api").Limits(); len(got) != 1 || got[0] != shardlimit.PerSecond(9) {
		t.Errorf("limits of api: %v, want those of the override, 9/s", got)
	}
}

// TestAFileOfManyAliasesIsRefused: a reload that read them would be the end of the daemon.
func TestAFileOfManyAliasesIsRefused(t *testing.T) {
	text := "domain: d\ndescriptors:\n  - {key: k, descriptors: &l0 [{key: x, rate_limit: {unit: second, requests_per_unit: 1}}]}\n"
	for i := range 9 {
		text += fmt.Sprintf("  - key: n%d\n    descriptors: &l%d\n", i, i+1)
		for j := range 10 {
			text += fmt.Sprintf("      - {key: k%d, descriptors: *l%d}\n", j, i)
		}
	}
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := config.Source{Flags: config.Default(), Envoy: path}.Read()
	if want := path + ":1:1: has more than 1000000 values, with all that its aliases stand for"; err == nil || err.Error() != want {
		t.Errorf("10^9 descriptors: %v, want %s", err, want)
	}
}

func TestAPathWithoutADomainIsAFault(t *testing.T) {
	for what, text := range map[string]string{"nothing": "", "a comment": "# to come\n"} {
		path := filepath.Join(t.TempDir(), "limits.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{path, filepath.Dir(path)} {
			_, _, err := config.Source{Flags: config.Default(), Envoy: path}.Read()
			if want := path + ": has no domain"; err == nil || err.Error() != want {
				t.Errorf("%s at %s: %v, want %s", what, path, err, want)
			}
		}
	}
}
