package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
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
