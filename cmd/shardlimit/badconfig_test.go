package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// badConfigs are files that must not be taken, one of each kind of fault, and what is said of them after
// the path. Package config has more.
var badConfigs = []struct{ text, want string }{
	{"", `:1:1: policies: must name at least one policy`},
	{"policies: [", `:1:11: sequence end token ']' not found`},
	{"just text", `:1:1: must be a mapping, with admin_token_file, `},
	{"policies: [{name: api, limits: [9/h]}]\npolicies: []", `:2:1: mapping key "policies" already defined at [1:1]`},
	{"policies: [{name: api, limits: [9/h]}]\n---\npolicies: []", `:1:1: must be one document, without a --- in between`},
	{"polices: []", `:1:1: polices: unknown key: want `},
	{"policies: {}", `:1:11: policies: must be a list`},
	{"policies: [{limits: [9/h]}]", `:1:12: policies[0]`},
	{"policies: [{name: 'a b', limits: [9/h]}]", `:1:19: policies[0].name: "a b" must match `},
	{"policies: [{name: api, limits: [9/h]}, {name: api, limits: [9/h]}]", `:1:40: policies[1].name: "api" is another policy's name`},
	{"policies: [{name: api}]", `:1:12: policies[0].limits: 0 limits: must be 1 to 8`},
	{"policies: [{name: api, limits: [often]}]", `:1:33: policies[0].limits[0]: "often" has no slash`},
	{"policies: [{name: api, limits: [0/h]}]", `:1:33: policies[0].limits[0]: 0 must be 1 to 1000000000`},
	{"policies: [{name: api, limits: [9/0s]}]", `:1:33: policies[0].limits[0]: `},
	{"policies: [{name: api, limits: [9/h leaky]}]", `:1:33: policies[0].limits[0]: `},
	{"policies: [{name: api, limits: [99999/h sliding_log]}]", `:1:33: policies[0].limits[0]: `},
	{"policies: [{name: api, limits: [9/h, 9/h]}]", `:1:38: policies[0].limits[1]: 9/h is there already`},
	{"policies: [{name: api, limits: [9/h], on_failure: local 2}]", `:1:51: policies[0].on_failure: "local 2" must have a share above 0 and at most 1`},
	{"policies: [{name: api, limits: [9/h], parts: 65}]", `:1:46: policies[0].parts: 65 must be a whole number from 0 to 64`},
	{"policies: [{name: api, limits: [9/h], shadow: 1}]", `:1:47: policies[0].shadow: 1 must be true or false`},
	{"policies: [{name: api, limits: [9/h], timeout: -1s}]", `:1:48: policies[0].timeout: "-1s" must be a duration above 0`},
	{"policies: [{name: api, limits: [9/h]}]\noverrides: [{policy: none, subjects: [a], limits: [9/h]}]", `:2:22: overrides[0].policy: "none" is none of the policies`},
	{"policies: [{name: api, limits: [9/h]}]\nauthorize: {denied_status: 200}", `:2:28: authorize.denied_status: 200 must be a whole number from 400 to 499`},
	{"policies: [{name: api, limits: [9/h]}]\nlisten: {public: '80'}", `:2:18: listen.public: "80" must be host:port or :port`},
	{"policies: [{name: api, limits: [9/h]}]\nredis: {nodes: ['http://u:s3cr3t@h:1']}", `:2:17: redis.nodes[0]: must be host:port, or `},
}

// TestABadConfigurationIsNamedAndChangesNothing: at the start, by config check, and by a daemon on a cluster that
// is given it, which goes on as before.
func TestABadConfigurationIsNamedAndChangesNothing(t *testing.T) {
	const good = "policies: [{name: api, limits: [5/h]}]\n"
	path := testfile.New(t, "limits.yaml", good)
	d, prefix := onCluster(t, "--config="+path)
	d.wants(200, "POST", d.public+"/v1/check", `{"policy":"api","subject":"a","cost":2}`)
	before := redistest.Dump(t, redistest.Shared(t), prefix)
	for i, tt := range badConfigs {
		replace(t, path, tt.text)
		for _, command := range [][]string{{"config", "check", path}, {"serve", "--config=" + path}} {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), command, &stdout, &stderr); code != exitFailed || !strings.Contains(stderr.String(), path+tt.want) {
				t.Errorf("%q: %v exits %d: %s; want %d and %s", tt.text, command, code, &stderr, exitFailed, tt.want)
			}
		}
		d.hangup()
		if line := d.await("configuration fault: the last good one holds"); !strings.Contains(line.Fault, tt.want[1:]) {
			t.Errorf("%q: the log says %+v, want %s", tt.text, line, tt.want)
		}
		text := d.wants(200, "GET", d.admin+"/v1/inspect?policy=api&subject=a", "", "Authorization", "Bearer s3cr3t")
		if left := remaining(t, text); left != 3 || !strings.Contains(text, fmt.Sprintf(`"generation":%d,`, i+1)) || !strings.Contains(text, `"fault":"`) {
			t.Errorf("%q: %s; want the last good one to hold, 3 of 5 units left, and a fault", tt.text, text)
		}
		replace(t, path, good) // so that the next fault is told even if it reads like this one
		d.hangup()
		d.await("configuration reloaded")
	}
	if diff := cmp.Diff(before, redistest.Dump(t, redistest.Shared(t), prefix)); diff != "" {
		t.Errorf("bad configurations changed Redis (-before +after):\n%s", diff)
	}
	if all := d.output(); strings.Contains(all, "s3cr3t") {
		t.Errorf("a secret in the log:\n%s", all)
	}
}
