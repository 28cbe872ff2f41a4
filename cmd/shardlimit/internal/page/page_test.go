package page_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/page"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
	"github.com/shardlimit/shardlimit/hotkey"
)

// daemon is what a page shows.
type daemon struct {
	snapshot shardlimit.Snapshot
	status   reload.Status
	rules    *rules.Set
	token    string
	record   *page.Record
}

// page returns the daemon's page, before a handler whose status is 418.
func (d daemon) page() http.Handler {
	if d.record == nil {
		d.record = page.NewRecord()
	}
	p := page.New(page.Options{
		Record: d.record, Inspect: func() shardlimit.Snapshot { return d.snapshot },
		Config: func() *config.Config { return &config.Config{Rules: d.rules} },
		Status: func() reload.Status { return d.status }, Token: d.token, Name: "here",
	})
	return p.Before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
}

// ask sends a request and returns the answer and its body.
func ask(t *testing.T, h http.Handler, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://admin:8081"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(text)
}

// has fails the test where the text lacks one of these.
func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

const form = "application/x-www-form-urlencoded"

func TestAllElseIsLeftToTheRest(t *testing.T) {
	h := daemon{rules: rules.New(nil, nil)}.page()
	for _, tt := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/page/style.css", 200, "text/css; charset=utf-8"},
		{"GET", "/page/live.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/page/icon.svg", 200, "image/svg+xml"},
		{"POST", "/", 418, ""},
		{"GET", "/page/enter", 418, ""},
		{"GET", "/page/page.html", 418, ""}, // the template
		{"GET", "/page/../files/door.html", 307, "text/html; charset=utf-8"},
		{"GET", "/v1/inspect", 418, ""},
	} {
		r, _ := ask(t, h, tt.method, tt.path, "")
		if r.StatusCode != tt.status || r.Header.Get("Content-Type") != tt.kind {
			t.Errorf("%s %s: %d %q, want %d %q", tt.method, tt.path, r.StatusCode, r.Header.Get("Content-Type"), tt.status, tt.kind)
		}
	}
}

// inline is what the policy would stop, and what comes from elsewhere.
var inline = regexp.MustCompile(`<style|<script>|\s(style|on\w+)=|javascript:|(src|href|action)="(https?:|//)`)

func TestNothingButItsOwnFilesMayRun(t *testing.T) {
	open, closed := daemon{rules: rules.New(nil, nil)}.page(), daemon{rules: rules.New(nil, nil), token: "s3cr3t"}.page()
	for _, h := range []http.Handler{open, closed} {
		r, text := ask(t, h, "GET", "/", "")
		for field, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
				"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff",
			"Cache-Control":          "no-store",
			"Referrer-Policy":        "same-origin",
		} {
			if got := r.Header.Get(field); got != want {
				t.Errorf("%s: %q, want %q", field, got, want)
			}
		}
		if found := inline.FindString(text); found != "" {
			t.Errorf("%q in\n%s", found, text)
		}
	}
}

func TestTheTokenOpensThePageToItsBrowser(t *testing.T) {
	d := daemon{rules: rules.New(nil, nil), token: "s3cr3t&?"}
	h := d.page()
	enter := func(token string, header ...string) *http.Response {
		t.Helper()
		r, _ := ask(t, h, "POST", "/page/enter", url.Values{"token": {token}}.Encode(), append(header, "Content-Type", form)...)
		return r
	}
	for _, wrong := range []string{"", "s3cr3t", "s3cr3t&?x", strings.Repeat("x", 1<<20)} {
		if r := enter(wrong); r.StatusCode != http.StatusUnauthorized || len(r.Cookies()) != 0 {
			t.Errorf("a wrong token of %d bytes: %d, cookies %v; want 401 and none", len(wrong), r.StatusCode, r.Cookies())
		}
	}
	if r, _ := ask(t, h, "POST", "/page/enter?token=s3cr3t%26%3F", "", "Content-Type", form); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token in the URL: %d, want 401", r.StatusCode)
	}
	r := enter("s3cr3t&?")
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/" || len(r.Cookies()) != 1 {
		t.Fatalf("the token: %d to %q, cookies %v; want 303 to / and one", r.StatusCode, r.Header.Get("Location"), r.Cookies())
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 12*60*60 || c.Path != "/" || c.Secure || strings.Contains(c.Value, "s3cr3t") {
		t.Errorf("cookie %v", c)
	}
	if c := enter("s3cr3t&?", "X-Forwarded-Proto", "https").Cookies()[0]; !c.Secure {
		t.Errorf("cookie %v behind a proxy that speaks TLS: want it secure", c)
	}

	look := func(h http.Handler, value string) int {
		r, _ := ask(t, h, "GET", "/", "", "Cookie", c.Name+"="+value)
		return r.StatusCode
	}
	other := "0"
	if c.Value[len(c.Value)-1] == '0' {
		other = "1"
	}
	later := "7" + c.Value[1:] // it would hold for longer
	for value, want := range map[string]int{c.Value: 200, "": 401, "zz": 401, c.Value[:16]: 401, c.Value[:len(c.Value)-1] + other: 401, later: 401} {
		if got := look(h, value); got != want {
			t.Errorf("with the pass %q: %d, want %d", value, got, want)
		}
	}
	if got := look(d.page(), c.Value); got != 401 {
		t.Errorf("another daemon with the same token takes the pass: %d", got)
	}
	r, _ = ask(t, h, "POST", "/page/leave", "", "Cookie", c.Name+"="+c.Value)
	if c := r.Cookies(); r.StatusCode != http.StatusSeeOther || len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("leaving: %d, cookies %v; want 303, and the cookie gone", r.StatusCode, c)
	}
}

func TestEmptyStatesSayWhy(t *testing.T) {
	d := daemon{rules: rules.New(nil, nil), status: reload.Status{Generation: 1}}
	_, text := ask(t, d.page(), "GET", "/", "")
	has(t, text, "Deciding in this process: no Redis is named", "None: no Redis is named", "Not counted: without Redis", "none: flags")
	d.snapshot.HotKeys = &hotkey.Snapshot{}
	_, text = ask(t, d.page(), "GET", "/", "")
	has(t, text, "No Redis yet: nothing was asked of it.", "None yet: nobody asks often.", `<p class="empty">None.</p>`)
}

func TestHealthIsOneLine(t *testing.T) {
	up, open := shardlimit.ShardState{Address: "a:1"}, shardlimit.ShardState{Address: "b:1", Open: true, Fallback: true}
	slow, topology := shardlimit.ShardState{Address: "c:1", Fallback: true}, shardlimit.ShardState{Open: true}
	back := shardlimit.ShardState{} // the topology, found again
	for _, tt := range []struct {
		shards []shardlimit.ShardState
		fault  string
		want   string
	}{
		{[]shardlimit.ShardState{up, back}, "", `good">All shards answer`},
		{[]shardlimit.ShardState{up}, "limits.yaml:1:1: bad", `bad">The configuration file is at fault`},
		{[]shardlimit.ShardState{up, open, slow}, "", `bad">Failure modes decide at 2 of 3 shards`},
		{[]shardlimit.ShardState{open, slow}, "", `bad">No shard answers`},
		{[]shardlimit.ShardState{topology}, "", `bad">No shard answers`},
		{[]shardlimit.ShardState{topology, up}, "", `bad">Who serves what can`},
	} {
		d := daemon{
			snapshot: shardlimit.Snapshot{HotKeys: &hotkey.Snapshot{}, Shards: tt.shards}, rules: rules.New(nil, nil),
			status: reload.Status{Generation: 1, Fault: tt.fault},
		}
		_, text := ask(t, d.page(), "GET", "/", "")
		has(t, text, `<p class="health `+tt.want)
	}
}

func TestEverythingIsEscaped(t *testing.T) {
	const evil = "<script>alert(1)</script>\"'{{.}}\u202e\xff\x00"
	const safe = "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;{{.}}\\u202e\\xff\\x00"
	record := page.NewRecord()
	record.Observer().Misconfigured("a:1", errors.New(evil))
	now := time.Now()
	d := daemon{
		snapshot: shardlimit.Snapshot{
			HotKeys: &hotkey.Snapshot{Hot: []hotkey.HotKey{
				{Policy: "api", Subject: evil, Rate: 9},
				{Policy: "api", Subject: strings.Repeat("x", 100) + evil, Rate: 9},
			}},
			Shards: []shardlimit.ShardState{{Address: "a:1", Fallback: true, Err: evil}},
		},
		status: reload.Status{Generation: 1, Fault: evil, FaultAt: &now},
		rules: rules.New([]*shardlimit.Policy{policy("api")}, []rules.Override{
			{Subject: evil, Policy: policy("api")},
		}),
		record: record,
	}
	_, text := ask(t, d.page(), "GET", "/", "")
	has(t, text, `<bdi>`+safe+`</bdi>`, `title="137 bytes: `, `<td data-label="Latest failure" class="wide">`+safe, `<pre class="fault">`+safe,
		`<td data-label="Detail" class="wide">`+safe)
	if n := strings.Count(text, safe); n != 6 {
		t.Errorf("it stands there %d times, want 6", n)
	}
	if strings.Contains(text, "<script>") || strings.ContainsAny(text, "\u202e\x00") || !utf8.ValidString(text) {
		t.Errorf("something isn't escaped in\n%s", text)
	}
}

func policy(name string) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: name, Limits: []shardlimit.Limit{shardlimit.PerSecond(1)}})
}

func TestWhatThereIsTooMuchOfIsCut(t *testing.T) {
	var d daemon
	d.snapshot.HotKeys = &hotkey.Snapshot{}
	for i := range 100 {
		d.snapshot.HotKeys.Hot = append(d.snapshot.HotKeys.Hot, hotkey.HotKey{Policy: "api", Subject: strings.Repeat("long", 1<<18), Rate: float64(100 - i)})
	}
	d.snapshot.HotKeys.Hot[99].Rate = 0.01 // nobody asks any more
	var policies []*shardlimit.Policy
	var overrides []rules.Override
	for i := range 150 {
		p := policy(fmt.Sprintf("p%03d", i))
		policies = append(policies, p)
		overrides = append(overrides, rules.Override{Subject: "a", Policy: p})
	}
	d.rules = rules.New(policies, overrides)
	d.status.Fault = strings.Repeat("fault\n", 100_000)
	_, text := ask(t, d.page(), "GET", "/", "")
	has(t, text, "The 20 hottest of 99.", "And 50 more: ", "And 100 more overrides: ")
	if len(text) > 300_000 {
		t.Errorf("%d bytes", len(text))
	}
}

func TestASubjectsRowSaysWhatIsLentAndWhyNot(t *testing.T) {
	d := daemon{rules: rules.New(nil, nil), snapshot: shardlimit.Snapshot{HotKeys: &hotkey.Snapshot{
		Held: 1234, Leases: 1, Entries: 3, Cap: 50_000, Bytes: 3 << 19, Counts: hotkey.Counts{Lent: 5000, GivenBack: 7, Forgotten: 8},
		Hot: []hotkey.HotKey{
			{Policy: "api", Subject: "a", Rate: 12_345.6, Lease: &hotkey.LeaseState{Units: 2000, Left: 1234, Ends: 140 * time.Millisecond}},
			{Policy: "api", Subject: "b", Rate: 30, Denied: 90 * time.Millisecond, Cost: 3, NoLease: hotkey.NothingLeft},
			{Policy: "api", Subject: "c", Rate: 25},
		},
	}}}
	_, text := ask(t, d.page(), "GET", "/", "")
	has(t, text, `class="n">12,346</td>`, `1,234 <small>of 2,000</small>`, `>140 ms</td>`,
		`for 90 ms</span> <small>from 3 units</small>`, `>nothing left to lend</td>`, `>asked for</td>`,
		`5,000 units lent since the start, 7 given back, 8 forgotten. 3 of 50000 entries, 1.5 MiB.`, `<b>1,234</b> units left<small>leases: 1</small>`)
}
