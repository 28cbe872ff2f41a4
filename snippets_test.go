package shardlimit_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// snippets are the Go blocks of a document.
var snippets = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// imports are what the snippets leave out, by the name that they use it under.
var imports = map[string]string{
	"errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log", "netip": "net/netip",
	"redis":      "github.com/redis/go-redis/v9",
	"hotkey":     "github.com/shardlimit/shardlimit/hotkey",
	"metrics":    "github.com/shardlimit/shardlimit/metrics",
	"middleware": "github.com/shardlimit/shardlimit/middleware",
	"prometheus": "github.com/prometheus/client_golang/prometheus",
	"shardlimit": "github.com/shardlimit/shardlimit",
}

// frame is what surrounds a snippet: what it takes for granted.
const frame = `
type service struct {
	limiter *shardlimit.Limiter
	api     *shardlimit.Policy
	opts    *redis.ClusterOptions
	mux     *http.ServeMux
}

func snippet(ctx context.Context, s service) error {
	limiter, api, opts, mux := s.limiter, s.api, s.opts, s.mux
	_, _, _, _ = limiter, api, opts, mux
	{
%s
	}
	return nil
}
`

func TestSnippetsOfTheDocumentsCompile(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found, want := 0, 4 // two in the README, one each in docs/http.md and docs/metrics.md
	for _, doc := range append(docs, "README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range snippets.FindAllSubmatch(text, -1) {
			found++
			t.Run(fmt.Sprintf("%s/%d", doc, i+1), func(t *testing.T) { compile(t, string(m[1])) })
		}
	}
	if found < want {
		t.Errorf("%d snippets found, want %d at least", found, want)
	}
}

// compile builds a snippet as a package of this module that is only overlaid.
func compile(t *testing.T, snippet string) {
	t.Helper()
	body := fmt.Sprintf(frame, snippet)
	source := "package snippet\n\nimport \"context\"\n"
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(body) {
			source += fmt.Sprintf("import %s %q\n", name, path)
		}
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "snippet.go"), filepath.Join(dir, "overlay.json")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := json.Marshal(map[string]any{
		"Replace": map[string]string{filepath.Join(here, "internal", "snippet", "snippet.go"): file},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{file: []byte(source + body), overlay: replaced} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay="+overlay, "./internal/snippet")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s%s", err, out, strings.TrimSpace(source), body)
	}
}
