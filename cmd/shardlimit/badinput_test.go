package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// curled is what curl got for an answer.
type curled struct {
	status                  int
	kind, allow, retryAfter string
	body                    string
}

// curl asks with the program of this name. What it reads of its input may never end.
func curl(t *testing.T, input io.Reader, args ...string) curled {
	t.Helper()
	needs(t, "curl")
	const written = "\n%{http_code}\t%{content_type}\t%header{allow}\t%header{retry-after}"
	c := exec.CommandContext(t.Context(), "curl", append([]string{"-sS", "-w", written}, args...)...)
	var out, complaints bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaints
	if input != nil {
		pipe, err := c.StdinPipe() // which Wait does not wait for
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(pipe, input) }()
	}
	if err := c.Run(); err != nil {
		t.Fatalf("curl %q: %v: %s", args, err, &complaints)
	}
	end := strings.LastIndexByte(out.String(), '\n')
	fields := strings.Split(out.String()[end+1:], "\t")
	status, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatalf("curl %q: %s", args, &out)
	}
	return curled{status, fields[1], fields[2], fields[3], out.String()[:end]}
}

// refused is what an answer that is a problem says.
type refused struct {
	Type   string
	Status int
	Detail string
	Errors []struct{ Field, Reason string }
}

// wantProblem ends in an error unless the answer is this problem, about this field or with this in its detail.
func (a curled) wantProblem(t *testing.T, what string, status int, kind, says string) {
	t.Helper()
	var p refused
	err := json.Unmarshal([]byte(a.body), &p)
	said := p.Detail
	for _, e := range p.Errors {
		said += e.Field + " " + e.Reason + "\n"
	}
	if err != nil || a.status != status || p.Status != status || a.kind != "application/problem+json" ||
		p.Type != "urn:shardlimit:problem:"+kind || !strings.Contains(said, says) {
		t.Errorf("%s: %+v (%v); want %d, %s, that says %q", what, a, err, status, kind, says)
	}
}

const (
	asJSON = "Content-Type: application/json"
	bearer = "Authorization: Bearer s3cr3t"
)

// onCluster returns a daemon on the cluster, with the token s3cr3t, and the prefix of its keys.
func onCluster(t *testing.T, flags ...string) (d *daemon, prefix string) {
	t.Helper()
	prefix = redistest.Prefix(t)
	return startDaemon(t, []string{"SHARDLIMIT_ADMIN_TOKEN=s3cr3t"}, append([]string{
		"--redis=" + strings.Join(redistest.Shared(t).Addrs(), ","), "--prefix=" + prefix, patient,
	}, flags...)...), prefix
}

// TestCurlIsToldWhatIsWrongAndNothingIsCharged asks what must not be decided, at a daemon on a cluster.
func TestCurlIsToldWhatIsWrongAndNothingIsCharged(t *testing.T) {
	d, prefix := onCluster(t, "--policy=api=5/h", "--policy=gcra=5/h gcra", "--read-timeout=5m")
	hasty, _ := onCluster(t, "--policy=api=5/h", "--read-timeout=200ms", "--prefix="+prefix)
	huge := testfile.New(t, "huge.json", `{"policy":"api","subject":"`+strings.Repeat("a", 1<<20)+`"}`)
	curl(t, nil, d.public+"/v1/check", "-H", asJSON, "-d", `{"policy":"api","subject":"a","cost":2}`)
	before := redistest.Dump(t, redistest.Shared(t), prefix)
	if len(before) != 1 {
		t.Fatalf("%d keys after one charge: %v", len(before), before)
	}
	check, reset := d.public+"/v1/check", d.admin+"/v1/reset"
	const one = `{"policy":"api","subject":"a"}`
	for _, tt := range []struct {
		status     int
		kind, says string
		args       []string
	}{
		{400, "malformed", "is not JSON: at byte 16", []string{check, "-H", asJSON, "-d", `{"policy":"api",`}},
		{400, "malformed", "is not JSON: at byte 0", []string{check, "-H", asJSON, "-d", ""}},
		{400, "malformed", "is not UTF-8", []string{check, "-H", asJSON, "--data-binary", "{\"policy\":\"api\",\"subject\":\"\xff\"}"}},
		{401, "unauthorized", "", []string{reset, "-H", asJSON, "-d", one}},
		{401, "unauthorized", "", []string{reset, "-H", asJSON, "-H", bearer + "x", "-d", one}},
		{401, "unauthorized", "", []string{reset, "-H", asJSON, "-u", "admin:s3cr3t", "-d", one}},
		{401, "unauthorized", "", []string{d.admin + "/v1/inspect"}},
		{401, "unauthorized", "", []string{d.admin + "/debug/pprof/"}},
		{403, "cross-origin", "https://evil.example", []string{reset, "-H", asJSON, "-H", bearer, "-H", "Origin: https://evil.example", "-d", one}},
		{403, "cross-origin", "", []string{reset, "-H", asJSON, "-H", bearer, "-H", "Sec-Fetch-Site: cross-site", "-d", one}},
		{403, "cross-origin", "null", []string{d.admin + "/page/enter", "-H", "Origin: null", "-d", "token=s3cr3t"}},
		{404, "not-found", "/v2/check", []string{d.public + "/v2/check", "-H", asJSON, "-d", one}},
		{404, "not-found", "/v1/reset", []string{d.public + "/v1/reset", "-H", asJSON, "-H", bearer, "-d", one}},
		{404, "no-receipt", "", []string{d.public + "/v1/refund", "-H", asJSON, "-d", `{"receipt":"none"}`}},
		{405, "wrong-method", "GET: want POST", []string{check}},
		{405, "wrong-method", "PUT: want POST", []string{reset, "-X", "PUT", "-H", asJSON, "-H", bearer, "-d", one}},
		{405, "wrong-method", "POST: want GET, HEAD", []string{d.public + "/v1/authorize?policy=api&subject=a", "-d", ""}},
		{413, "too-large", "more than 1048576 bytes", []string{check, "-H", asJSON, "--data-binary", "@" + huge}},
		{413, "too-large", "more than 1048576 bytes", []string{reset, "-H", asJSON, "-H", bearer, "--data-binary", "@" + huge}},
		{415, "wrong-media-type", "application/x-www-form-urlencoded", []string{check, "-d", one}},
		{415, "wrong-media-type", `"": want application/json`, []string{check, "-H", "Content-Type:", "-d", one}},
		{422, "invalid-input", "policy is none of the policies", []string{check, "-H", asJSON, "-d", `{"policy":"apis","subject":"a"}`}},
		{422, "invalid-input", "cots unknown field", []string{check, "-H", asJSON, "-d", `{"policy":"api","subject":"a","cots":2}`}},
		{422, "invalid-input", "subject must not be empty", []string{check, "-H", asJSON, "-d", `{"policy":"api"}`}},
		{422, "invalid-input", "cost must be at least 1", []string{check, "-H", asJSON, "-d", `{"policy":"api","subject":"a","cost":-9223372036854775808}`}},
		{422, "invalid-input", "cost must be a whole number", []string{check, "-H", asJSON, "-d", `{"policy":"api","subject":"a","cost":9223372036854775808}`}},
		{422, "invalid-input", "cost is more than 5/h can ever hold", []string{check, "-H", asJSON, "-d", `{"policy":"api","subject":"a","cost":9223372036854775807}`}},
		{422, "invalid-input", "cost is more than 5/h", []string{d.public + "/v1/authorize?policy=api&subject=a&cost=6"}},
		{422, "invalid-input", "mode ", []string{check, "-H", asJSON, "-d", `{"policy":"gcra","subject":"a","mode":"charge"}`}},
		{422, "invalid-input", "requests[1].policy", []string{check, "-H", asJSON, "-d", `{"all_or_none":true,"requests":[{"policy":"api","subject":"a"},{"policy":"x","subject":"a"}]}`}},
		{422, "invalid-input", "query is not", []string{d.public + "/v1/authorize?policy=%zz"}},
	} {
		what := "curl " + strings.Join(tt.args, " ")
		curl(t, nil, tt.args...).wantProblem(t, what[:min(len(what), 200)], tt.status, tt.kind, tt.says)
	}
	if a := curl(t, nil, check); a.allow != "POST" {
		t.Errorf("405 with Allow %q, want POST", a.allow)
	}
	if a := curl(t, nil, check, "-H", "X-Long: "+strings.Repeat("a", 64<<10)); a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of header: %+v, want 431", a)
	}
	curl(t, neverEnding(`{"policy":"api","subject":"a"`), hasty.public+"/v1/check", "-H", asJSON, "-X", "POST", "-T", ".").
		wantProblem(t, "a slow client", 408, "too-slow", "")
	if diff := cmp.Diff(before, redistest.Dump(t, redistest.Shared(t), prefix)); diff != "" {
		t.Errorf("what was refused changed Redis (-before +after):\n%s", diff)
	}
}

// neverEnding is text, and then nothing more for ever.
func neverEnding(text string) io.Reader {
	endless, _ := io.Pipe()
	return io.MultiReader(strings.NewReader(text), endless)
}

func TestCurlIsToldToWait(t *testing.T) {
	d, _ := onCluster(t, "--policy=api=5/h")
	ask := d.public + "/v1/authorize?policy=api&subject=a"
	if a := curl(t, nil, ask+"&cost=5"); a.status != http.StatusOK || a.retryAfter != "" {
		t.Errorf("the first five: %+v, want 200", a)
	}
	a := curl(t, nil, ask)
	if wait, err := strconv.Atoi(a.retryAfter); a.status != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 720 {
		t.Errorf("the sixth: %+v, want 429, and to wait for up to the 720 s that one takes", a)
	}
	if a := curl(t, nil, d.public+"/v1/check", "-H", asJSON, "-d", `{"policy":"api","subject":"a"}`); a.status != http.StatusOK || !strings.Contains(a.body, `"allowed":false`) {
		t.Errorf("the same by a check: %+v, want 200 and a decision against", a)
	}
}

func TestCurlIsToldThatRedisIsAway(t *testing.T) {
	d := startDaemon(t, nil, "--redis=127.0.0.1:1", "--config="+testfile.New(t, "limits.yaml",
		"policies: [{name: open, limits: [5/h]}, {name: closed, limits: [5/h], on_failure: closed}]"))
	curl(t, nil, d.public+"/v1/authorize?policy=closed&subject=a").wantProblem(t, "a policy that fails closed", 503, "unavailable", "")
	curl(t, nil, d.admin+"/v1/reset", "-H", asJSON, "-d", `{"policy":"open","subject":"a"}`).wantProblem(t, "a reset", 503, "unavailable", "")
	curl(t, nil, d.public+"/readyz").wantProblem(t, "readyz", 503, "not-ready", "")
	if a := curl(t, nil, d.public+"/healthz"); a.status != http.StatusOK {
		t.Errorf("healthz: %+v, want 200", a)
	}
	for policy, allowed := range map[string]string{"open": "true", "closed": "false"} {
		a := curl(t, nil, d.public+"/v1/check", "-H", asJSON, "-d", `{"policy":"`+policy+`","subject":"a"}`)
		if a.status != http.StatusOK || !strings.Contains(a.body, `"allowed":`+allowed) || !strings.Contains(a.body, `"source":"fallback"`) || !strings.Contains(a.body, `"failure":"`) {
			t.Errorf("a check of %s: %+v; want 200, allowed %s by the fallback, and why", policy, a, allowed)
		}
	}
}

// TestCurlIsRefusedUnderAnothersName: without a token, the admin listener is called by its own names alone.
func TestCurlIsRefusedUnderAnothersName(t *testing.T) {
	d := startDaemon(t, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(d.admin, "http://"), ":")
	for _, path := range []string{"/", "/v1/inspect", "/metrics", "/debug/pprof/"} {
		curl(t, nil, d.admin+path, "-H", "Host: evil.example:"+port).wantProblem(t, path, 403, "foreign-host", "evil.example")
		if a := curl(t, nil, "--resolve", "localhost:"+port+":127.0.0.1", "http://localhost:"+port+path); a.status != http.StatusOK {
			t.Errorf("%s of localhost: %+v, want 200", path, a)
		}
	}
	if a := curl(t, nil, d.public+"/v1/authorize?policy=default&subject=a", "-H", "Host: any.example"); a.status != http.StatusOK {
		t.Errorf("the public listener under another name: %+v, want 200", a)
	}
}
