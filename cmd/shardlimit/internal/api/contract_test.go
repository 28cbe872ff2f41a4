package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// contract is the description that the server serves, and which of its answers
// a test has seen.
type contract struct {
	root map[string]any

	mu   sync.Mutex
	seen map[string]bool // "GET /healthz 200"
}

func newContract(t *testing.T) *contract {
	t.Helper()
	c := &contract{seen: map[string]bool{}}
	if err := yaml.Unmarshal(description, &c.root); err != nil {
		t.Fatal(err)
	}
	return c
}

// at returns what a path of names leads to, references followed; nil for
// nothing.
func (c *contract) at(names ...string) any {
	var n any = c.root
	for _, name := range names {
		m, _ := c.follow(n).(map[string]any)
		n = m[name]
	}
	return c.follow(n)
}

// follow returns what a reference is to.
func (c *contract) follow(n any) any {
	m, _ := n.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return n
	}
	return c.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

// properties returns the names of a schema's properties, sorted.
func (c *contract) properties(schema string) []string {
	m, _ := c.at("components", "schemas", schema, "properties").(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// documented returns all answers that are described, sorted.
func (c *contract) documented() []string {
	var all []string
	paths := c.at("paths").(map[string]any)
	for path := range paths {
		for method := range c.at("paths", path).(map[string]any) {
			for status := range c.at("paths", path, method, "responses").(map[string]any) {
				all = append(all, strings.ToUpper(method)+" "+path+" "+status)
			}
		}
	}
	slices.Sort(all)
	return all
}

// check fails the test unless the answer to a request of this method is
// described. Another method than a path takes is described beside that.
func (c *contract) check(t *testing.T, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	if status == http.StatusMethodNotAllowed {
		for method = range c.at("paths", path).(map[string]any) {
			method = strings.ToUpper(method)
		}
	}
	code := strconv.Itoa(status)
	answer := c.at("paths", path, strings.ToLower(method), "responses", code)
	if answer == nil {
		t.Errorf("%s %s answers %s, which is not described", method, path, code)
		return
	}
	c.see(method + " " + path + " " + code)
	fields, _ := answer.(map[string]any)["headers"].(map[string]any)
	for name := range fields {
		if h, ok := c.follow(fields[name]).(map[string]any); !ok || h["schema"] == nil {
			t.Errorf("%s %s answers %s with %s, which is described as %v", method, path, code, name, fields[name])
		}
	}
	content, _ := c.follow(answer.(map[string]any)["content"]).(map[string]any)
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if len(content) == 0 {
		if len(body) > 0 {
			t.Errorf("%s %s answers %s with %q: want no body", method, path, code, body)
		}
		return
	}
	media, ok := content[kind].(map[string]any)
	if !ok {
		t.Errorf("%s %s answers %s as %q, which is not described", method, path, code, kind)
		return
	}
	if schema := media["schema"]; schema != nil {
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Errorf("%s %s answers %s with %q: %v", method, path, code, body, err)
		} else if err := c.fits(schema, v, "body"); err != nil {
			t.Errorf("%s %s answers %s with %s: %v", method, path, code, body, err)
		}
	}
}

func (c *contract) see(answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[answer] = true
}

// fits returns why v isn't what the schema says.
func (c *contract) fits(schema, v any, at string) error {
	s, _ := c.follow(schema).(map[string]any)
	if either, ok := s["oneOf"].([]any); ok {
		var err error
		for _, one := range either {
			if err = c.fits(one, v, at); err == nil {
				return nil
			}
		}
		return err
	}
	switch s["type"] {
	case "object":
		return c.fitsObject(s, v, at)
	case "array":
		all, ok := v.([]any)
		for i := 0; ok && i < len(all); i++ {
			if err := c.fits(s["items"], all[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return wrong(ok, at, v, "array")
	case "string":
		_, ok := v.(string)
		words, limited := s["enum"].([]any)
		return wrong(ok && (!limited || slices.Contains(words, v)), at, v, fmt.Sprint("string ", words))
	case "boolean":
		_, ok := v.(bool)
		return wrong(ok, at, v, "boolean")
	case "integer":
		f, ok := v.(float64)
		return wrong(ok && f == float64(int64(f)), at, v, "integer")
	default:
		return nil
	}
}

func (c *contract) fitsObject(s map[string]any, v any, at string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return wrong(false, at, v, "object")
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := m[name.(string)]; !ok {
			return fmt.Errorf("%s lacks %v", at, name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, value := range m {
		schema, known := properties[name]
		if !known && s["additionalProperties"] == false {
			return fmt.Errorf("%s.%s is not described", at, name)
		}
		if err := c.fits(schema, value, at+"."+name); known && err != nil {
			return err
		}
	}
	return nil
}

func wrong(ok bool, at string, v any, want string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s is %v: want %s", at, v, want)
}

func TestEveryAnswerIsDescribedAndEveryDescribedAnswerIsGiven(t *testing.T) {
	s := local(t)
	c := s.contract
	s.badInput()
	for _, path := range []string{"/v1/check", "/v1/refund", "/v1/reset"} {
		s.slow(path)
	}
	receipt := s.check(`{"policy":"api","subject":"z","receipt":true}`).Receipt
	s.ask("POST", "/v1/refund", `{"receipt":"`+receipt+`"}`)
	s.ask("POST", "/v1/reset", `{"policy":"api","subject":"z"}`)
	s.ask("GET", "/v1/authorize?subject=z&cost=5", "")
	s.ask("GET", "/v1/authorize?subject=z", "")
	s.ask("GET", "/v1/inspect", "")
	s.ask("GET", "/v1/inspect?policy=api&subject=z", "")
	for _, path := range []string{"/v1/openapi.yaml", "/healthz", "/readyz", "/metrics"} {
		s.ask("GET", path, "")
	}
	forbidden(t, c)
	gone(t, c)
	foreign := guarded(t, c, "")
	foreign("GET", "/v1/inspect", "evil.example")
	foreign("POST", "/v1/reset", "evil.example")

	var seen []string
	for answer := range c.seen {
		seen = append(seen, answer)
	}
	slices.Sort(seen)
	if diff := cmp.Diff(c.documented(), seen); diff != "" {
		t.Errorf("answers: (-described +given)\n%s", diff)
	}
}

// quiet is the configuration of a limiter that meets faults by intention.
var quiet = shardlimit.Config{Timeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)}

// forbidden asks a server whose user may not do what decisions need: those are
// errors whatever the mode. A charge from before can't be given back either.
func forbidden(t *testing.T, c *contract) {
	t.Helper()
	cluster := redistest.Shared(t)
	cfg := quiet
	cfg.Prefix = redistest.Prefix(t)
	user := strings.ToLower(cfg.Prefix)
	rights := func(rights ...any) {
		for _, n := range cluster.Nodes() {
			if err := n.Client().Do(t.Context(), append([]any{"ACL", "SETUSER", user}, rights...)...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	rights("on", ">secret", "~*", "+@all")
	t.Cleanup(func() {
		for _, n := range cluster.Nodes() {
			_ = n.Client().Do(context.WithoutCancel(t.Context()), "ACL", "DELUSER", user).Err()
		}
	})
	l, err := shardlimit.Open(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: user, Password: "secret"}, cfg)
	s := serve(t, closing.Opened(t, l, err), c)
	receipt := s.check(`{"policy":"api","subject":"a","receipt":true}`).Receipt
	rights("-evalsha", "-eval")
	for _, tt := range [][3]string{
		{"POST", "/v1/check", `{"policy":"api","subject":"a"}`},
		{"POST", "/v1/refund", `{"receipt":"` + receipt + `"}`},
		{"POST", "/v1/reset", `{"policy":"api","subject":"a"}`},
		{"GET", "/v1/authorize?subject=a", ""},
		{"GET", "/v1/inspect?policy=api&subject=a", ""},
	} {
		if a := s.ask(tt[0], tt[1], tt[2]); a.status != http.StatusInternalServerError {
			t.Errorf("%v without the rights: %d %s, want 500", tt, a.status, a.body)
		}
	}
	s.closed(l, receipt)
}

// gone asks a server whose cluster isn't there.
func gone(t *testing.T, c *contract) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := quiet
	cfg.Timeout = 20 * time.Millisecond
	l, err := shardlimit.Open(&redis.ClusterOptions{Addrs: []string{listener.Addr().String()}}, cfg)
	s := serve(t, closing.Opened(t, l, err), c)
	if d := s.check(`{"policy":"api","subject":"a","receipt":true}`); !d.Allowed || d.Source != "fallback" || d.Failure == "" || d.Receipt != "" {
		t.Errorf("api fails open: %+v, want it allowed by the fallback, with the failure and no receipt", d)
	}
	if d := s.check(`{"policy":"closed","subject":"a"}`); d.Allowed || d.Source != "fallback" {
		t.Errorf("closed fails closed: %+v, want it denied by the fallback", d)
	}
	for _, tt := range [][3]string{
		{"POST", "/v1/reset", `{"policy":"api","subject":"a"}`},
		{"GET", "/v1/authorize?policy=closed&subject=a", ""},
		{"GET", "/readyz", ""},
	} {
		if a := s.ask(tt[0], tt[1], tt[2]); a.status != http.StatusServiceUnavailable {
			t.Errorf("%v without Redis: %d %s, want 503", tt, a.status, a.body)
		}
	}
	if a := s.ask("GET", "/v1/authorize?subject=a", ""); a.status != http.StatusOK {
		t.Errorf("authorize under a policy that fails open: %d %s, want 200", a.status, a.body)
	}
}

// closed asks once the limiter is closed.
func (s *server) closed(l *shardlimit.Limiter, receipt string) {
	s.t.Helper()
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
	for _, tt := range [][3]string{
		{"POST", "/v1/check", `{"policy":"api","subject":"a"}`},
		{"GET", "/v1/inspect?policy=api&subject=a", ""},
		{"POST", "/v1/refund", `{"receipt":"` + receipt + `"}`},
	} {
		if a := s.ask(tt[0], tt[1], tt[2]); a.status != http.StatusServiceUnavailable {
			s.t.Errorf("%v once closed: %d %s, want 503", tt, a.status, a.body)
		}
	}
}

func TestFieldsAreThoseThatAreDescribed(t *testing.T) {
	c := newContract(t)
	for schema, v := range map[string]any{
		"Decision": Decision{}, "Decisions": decisions{}, "Problem": Problem{}, "FieldError": FieldError{}, "Health": health{},
		"Inspection": inspection{}, "Configuration": reload.Status{}, "Policy": policyState{}, "Subject": subjectState{},
	} {
		var fields []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if f.Anonymous {
				continue // its fields are there too
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, name)
		}
		slices.Sort(fields)
		if diff := cmp.Diff(c.properties(schema), fields); diff != "" {
			t.Errorf("%s: (-described +answered)\n%s", schema, diff)
		}
	}
	s := local(t)
	for schema, ask := range map[string][2]string{
		"Check": {"/v1/check", `{"?":1}`}, "Request": {"/v1/check", `{"requests":[{"?":1}]}`},
		"Refund": {"/v1/refund", `{"?":1}`}, "Reset": {"/v1/reset", `{"?":1}`},
	} {
		p := s.ask("POST", ask[0], ask[1]).problem(t)
		got := strings.Split(strings.TrimPrefix(p.Errors[0].Reason, "unknown field: want "), ", ")
		if diff := cmp.Diff(c.properties(schema), got); diff != "" {
			t.Errorf("%s: (-described +taken)\n%s", schema, diff)
		}
	}
}

func TestTheDescriptionIsServed(t *testing.T) {
	file, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a := local(t).ask("GET", "/v1/openapi.yaml", ""); !bytes.Equal(a.body, file) {
		t.Errorf("served %d bytes, want those of openapi.yaml", len(a.body))
	}
}
