//go:build e2e

package main

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

const limits = `
policies:
  - {name: api, limits: [2000/s burst 4000]}
  - {name: search, limits: [20/s burst 40 gcra], on_failure: local 0.2}
  - {name: login, limits: [5/15m sliding_log], on_failure: closed, timeout: 2s, leases: off}
  - {name: trial, limits: [10/m], shadow: true}
overrides:
  - {policy: api, subjects: ["partner:*"], limits: [10000/s burst 20000]}
`

// load asks for each of the checks in turn, time after time, until the test ends.
func load(d *daemon, pause time.Duration, checks ...string) {
	ctx, stop := context.WithCancel(d.t.Context())
	var running sync.WaitGroup
	for _, check := range checks {
		running.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					ask(ctx, d.public+"/v1/check", check)
				}
			}
		})
	}
	d.t.Cleanup(func() { stop(); running.Wait() })
}

// ask sends a check whose answer is of no interest.
func ask(ctx context.Context, url, check string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(check))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	if got, err := http.DefaultClient.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
	}
}

func check(policy, subject string) string {
	return fmt.Sprintf(`{"policy":%q,"subject_base64":%q}`, policy, base64.StdEncoding.EncodeToString([]byte(subject)))
}

func TestPageShowsADaemonUnderLoadAndStaysUpToDate(t *testing.T) {
	cluster := redistest.Shared(t)
	path := testfile.New(t, "limits.yaml", limits)
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--prefix="+redistest.Prefix(t), patient, "--config="+path)
	b := openBrowser(t)
	b.do(chromedp.Navigate(d.admin + "/"))
	if text := eval[string](b, `document.getElementById("shards").innerText`); !strings.Contains(text, "No Redis yet") {
		t.Errorf("before the first decision the shards are %q", text)
	}
	eval[bool](b, "window.loadedOnce = true")

	load(d, 2*time.Millisecond, check("api", "tenant:1"), check("search", "bot"), check("trial", "someone"))
	load(d, 20*time.Millisecond, check("login", "a"), check("api", "b"), check("api", "c"), check("api", "d"), check("api", "e"))
	for _, addr := range cluster.Addrs() {
		b.becomes(`document.querySelector('[data-shard="%s"]')?.innerText.includes("closed")`, addr)
	}
	const row = `[...document.querySelectorAll("#hot tbody tr")].find(r => r.querySelector("th").innerText === "%s")`
	cell := func(subject, label string) string {
		return fmt.Sprintf(row, subject) + `?.querySelector('[data-label="` + label + `"]')?.innerText`
	}
	b.becomes(`/^[1-9][\d,]* of [1-9]/.test(%s)`, cell("tenant:1", "Lease left"))
	b.becomes(`/ ms$/.test(%s)`, cell("tenant:1", "Ends in"))
	b.becomes(`/^for \d+ ms/.test(%s)`, cell("bot", "Known denied"))
	b.becomes(`%s === "never leased: algorithm"`, cell("bot", "Why not leased"))
	b.becomes(`%s === "leases are off"`, cell("a", "Why not leased"))
	for _, source := range []string{"redis", "lease", "denial"} {
		b.becomes(`parseFloat(document.querySelector('[data-source="%s"] b').innerText) > 1`, source)
		b.becomes(`document.querySelector('[data-source="%s"] svg path')?.getBoundingClientRect().height > 1`, source)
	}
	policy := func(name, label string) string {
		return fmt.Sprintf(`document.querySelector('[data-policy="%s"] [data-label="%s"]')?.innerText`, name, label)
	}
	for _, is := range []struct{ policy, label, want string }{
		{"api", "Limits", "2000/s burst 4000"},
		{"api", "Timeout", "default"},
		{"api", "Denied", "0 %"},
		{"search", "On failure", "local 0.2"},
		{"login", "On failure", "closed"},
		{"login", "Timeout", "2s"},
		{"login", "Leases", "off"},
	} {
		b.becomes(`%s === %q`, policy(is.policy, is.label), is.want)
	}
	b.becomes(`/^would be 9\d\.\d %%$/.test(%s)`, policy("trial", "Denied"))
	if text := eval[string](b, `document.getElementById("policies").innerText`); !strings.Contains(text, "partner:*") {
		t.Errorf("no override in %s", text)
	}

	replace(t, path, limits+"  - {policy: login, subjects: [admin], limits: [1/15m sliding_log]}\n")
	d.hangup()
	b.becomes(`document.getElementById("changes").innerText.includes("generation 2")`)
	replace(t, path, "policies: [{name: api, limits: [<b>often</b>]}]")
	d.hangup()
	b.becomes(`document.querySelector("#config pre")?.innerText.includes('"<b>often</b>" has a rate')`)
	b.becomes(`document.getElementById("health").innerText.includes("the last good one holds")`)
	if !eval[bool](b, "window.loadedOnce === true") {
		t.Error("the page was loaded again")
	}
	if faults := b.complaints(); len(faults) > 0 {
		t.Errorf("the browser complains: %q", faults)
	}
}

// picture is where the picture of the README is put: see make picture.
var picture = flag.String("page.picture", "", "where to put a picture of the page, which takes two minutes")

func TestPageShowsAKilledPrimaryAsAnOpenBreaker(t *testing.T) {
	cluster := redistest.Start(t, redistest.Options{Args: []string{"--cluster-require-full-coverage", "no"}})
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--timeout=2s",
		"--config="+testfile.New(t, "limits.yaml", limits+"breaker: {min_calls: 5, window: 5s}\n"))
	for i := range 12 {
		subject := "customer:" + strconv.Itoa(1000+7*i)
		load(d, time.Duration(5+3*i)*time.Millisecond, check("api", subject), check("search", subject))
	}
	load(d, 2*time.Millisecond, check("api", "partner:17"), check("trial", "address:192.0.2.7"))
	b := openBrowser(t)
	b.do(chromedp.Navigate(d.admin + "/"))
	victim := cluster.Nodes()[1]
	const state = `document.querySelector('[data-shard="%s"] [data-label="Breaker"]')?.innerText.startsWith("%s")`
	b.becomes(state, victim.Addr(), "closed")
	if *picture != "" {
		b.do(chromedp.Sleep(100 * time.Second)) // until the charts are full
	}
	if err := victim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.becomes(state, victim.Addr(), "open")
	for _, n := range cluster.Nodes() {
		if n != victim {
			b.becomes(state, n.Addr(), "closed")
		}
	}
	b.becomes(`document.getElementById("health").innerText === "Failure modes decide at 1 of 3 shards"`)
	b.becomes(`parseFloat(document.querySelector('[data-source="fallback"] b').innerText) > 0`)
	b.becomes(`document.getElementById("changes").innerText.includes("Breaker opened")`)
	if *picture != "" {
		b.do(chromedp.Sleep(8 * time.Second))
		b.picture(*picture)
	}
	if err := victim.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.becomes(state, victim.Addr(), "closed")
	b.becomes(`/Fallback ended[^]*calls not sent/.test(document.getElementById("changes").innerText)`)
}

// picture puts one of what the window shows into a file.
func (b *browser) picture(path string) {
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func TestPageWorksWithoutScripts(t *testing.T) {
	cluster := redistest.Shared(t)
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--prefix="+redistest.Prefix(t), patient, "--policy=api=5/h")
	b := openBrowser(t)
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(d.admin + "/"))
	for range 7 {
		d.wants(200, "POST", d.public+"/v1/check", check("api", "once in a while"))
	}
	if eval[bool](b, `document.body.innerText.includes("once in a while")`) {
		t.Error("the page is live without scripts")
	}
	b.do(chromedp.Click(chromedp.CSS("noscript a")), chromedp.WaitVisible(chromedp.CSS("#hot tbody tr")))
	text := eval[string](b, "document.body.innerText")
	for _, want := range append(cluster.Addrs(), "All shards answer", "once in a while", "5/h", "7 since the start", "2 since the start") {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "Pause") {
		t.Error("a button that does nothing")
	}
}

func TestPageShowsSubjectsAsText(t *testing.T) {
	cluster := redistest.Shared(t)
	d := startDaemon(t, nil, "--redis="+strings.Join(cluster.Addrs(), ","), "--prefix="+redistest.Prefix(t), patient, "--policy=api=5/h")
	long := strings.Repeat("long ", 50)
	shown := map[string]string{ // subject, and what stands for it
		`<script>window.pwned = 1</script>`:                ``,
		`<img src=x onerror="window.pwned = 1">`:           ``,
		`"><svg onload=window.pwned=1>`:                    ``,
		`' onmouseover='window.pwned = 1`:                  ``,
		`</table></main></body><!--`:                       ``,
		`{{.}} {{template "page.html"}} {{printf "%s" 1}}`: ``,
		`javascript:window.pwned=1`:                        ``,
		`&lt;b&gt; &amp;`:                                  ``,
		"tab\t nul\x00 bell\a":                             `tab\t nul\x00 bell\a`,
		"not \xff\xfe UTF-8":                               `not \xff\xfe UTF-8`,
		"user\u202Egnp.exe":                                `user\u202egnp.exe`,
		"\u2066isolated":                                   `\u2066isolated`,
		"zero\u200Bwidth":                                  `zero\u200bwidth`,
		`back\slash`:                                       `back\\slash`,
		"مستخدم":                                           ``,
		"利用者🙂":                                             ``,
		long:                                               "long long long long long long long l… long long long ",
	}
	for subject := range shown {
		load(d, 100*time.Millisecond, check("api", subject))
	}
	b := openBrowser(t)
	b.do(chromedp.Navigate(d.admin + "/"))
	b.becomes(`document.querySelectorAll("#hot tbody tr").length === %d`, len(shown))
	seen := func() {
		t.Helper()
		got := eval[[]string](b, `[...document.querySelectorAll("#hot tbody th")].map(th => th.textContent)`)
		for subject, want := range shown {
			if want == "" {
				want = subject
			}
			if !slices.Contains(got, want) {
				t.Errorf("no %q among %q", want, got)
			}
		}
		if eval[bool](b, `"pwned" in window || document.querySelector("table script, table img, table svg[onload], [onmouseover]") !== null`) {
			t.Error("a subject became a part of the page")
		}
	}
	seen()
	asOf := eval[string](b, `document.getElementById("as-of").dateTime`)
	b.becomes(`document.getElementById("as-of").dateTime !== %q`, asOf)
	seen() // so it is after the script has put it there
	if width := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); width > 0 {
		t.Errorf("the page is %d pixels wider than the window", width)
	}
	if faults := b.complaints(); len(faults) > 0 {
		t.Errorf("the browser complains: %q", faults)
	}
}

// faint returns the texts whose contrast is below that of WCAG's level AA.
const faint = `(() => {
	const parse = text => text.match(/[\d.]+/g).map(Number);
	const light = text => {
		const [r, g, b] = parse(text).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const ground = e => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (parse(color)[3] !== 0) return color;
		}
		return "rgb(255, 255, 255)";
	};
	const list = [];
	for (const e of document.body.querySelectorAll("*")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
		const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
		if ((a + .05) / (b + .05) < 4.5) list.push(e.textContent + " " + ((a + .05) / (b + .05)).toFixed(2));
	}
	return list;
})()`

// prefers makes the reader prefer light colors or dark ones.
func (b *browser) prefers(scheme string) {
	b.t.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

func TestPageIsReadableInEitherColorAndOnAPhone(t *testing.T) {
	path := testfile.New(t, "limits.yaml", limits)
	d := startDaemon(t, nil, "--config="+path)
	for range 20 {
		d.wants(200, "POST", d.public+"/v1/check", check("login", "a"))
	}
	replace(t, path, "policies: []")
	d.hangup()
	d.await("configuration fault: the last good one holds")
	b := openBrowser(t)
	grounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(scheme)
		for _, width := range []int64{1280, 768, 360} {
			command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500,
			})
			b.do(chromedp.Navigate(d.admin+"/"), chromedp.WaitVisible(chromedp.CSS("#config pre")))
			if texts := eval[[]string](b, faint); len(texts) > 0 {
				t.Errorf("%s, %d wide: too little contrast: %q", scheme, width, texts)
			}
			if wider := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wider > 0 {
				t.Errorf("%s, %d wide: the page is %d pixels wider", scheme, width, wider)
			}
		}
		grounds[scheme] = eval[string](b, `getComputedStyle(document.body).backgroundColor`)
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("the ground is %q in either color", grounds["dark"])
	}
}

func TestPageOpensWithTheTokenAlone(t *testing.T) {
	const token = "s3cr3t-token"
	d := startDaemon(t, []string{"SHARDLIMIT_ADMIN_TOKEN=" + token})
	b := openBrowser(t)
	enter := func(token, wait string) {
		b.do(chromedp.SendKeys(chromedp.CSS("#token"), token+"\r"), chromedp.WaitVisible(chromedp.CSS(wait)))
	}
	b.do(chromedp.Navigate(d.admin+"/"), chromedp.WaitVisible(chromedp.CSS("#token")))
	if text := eval[string](b, "document.body.innerText"); strings.Contains(text, "Policies") {
		t.Errorf("without the token: %s", text)
	}
	enter(token+"-wrong", "#fault")
	enter(token, `[data-policy="default"]`)
	if url := eval[string](b, "location.href + document.referrer"); strings.Contains(url, "s3cr3t") {
		t.Errorf("the token is in %s", url)
	}
	if cookie := eval[string](b, "document.cookie"); cookie != "" {
		t.Errorf("scripts read the cookie %q", cookie)
	}
	cookies := command(b, network.GetCookies, network.GetCookiesParams{}).Cookies
	if len(cookies) != 1 || cookies[0].SameSite != network.CookieSameSiteStrict || strings.Contains(cookies[0].Value, token) {
		t.Errorf("cookies %+v: want one, strictly of this site, without the token", cookies)
	}
	asOf := eval[string](b, `document.getElementById("as-of").dateTime`)
	b.becomes(`document.getElementById("as-of").dateTime !== %q`, asOf)
	b.do(chromedp.Click(chromedp.CSS("form button")), chromedp.WaitVisible(chromedp.CSS("#token")))
	if strings.Contains(d.output(), "s3cr3t") {
		t.Errorf("the token is in the log:\n%s", d.output())
	}
}

func TestPageSaysThatItIsNotUpToDate(t *testing.T) {
	d := startDaemon(t, nil)
	b := openBrowser(t)
	b.do(chromedp.Navigate(d.admin + "/"))
	if eval[bool](b, `document.getElementById("stale").checkVisibility()`) {
		t.Error("a page just loaded isn't up to date")
	}
	d.stop(os.Interrupt)
	b.becomes(`document.getElementById("stale").checkVisibility()`)
	const want = "Not up to date: the daemon has not answered since "
	if text := eval[string](b, `document.getElementById("stale").innerText`); !strings.HasPrefix(text, want) {
		t.Errorf("the notice is %q, want %q…", text, want)
	}
}
