package shardlimit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	sources, want := map[string]string{}, 4 // two in the README, one each in docs/http.md and docs/metrics.md
	for _, doc := range append(docs, "README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range snippets.FindAllSubmatch(text, -1) {
			sources[fmt.Sprintf("./internal/snippets/%s-%d", filepath.Base(doc), i+1)] = source(string(m[1]))
		}
	}
	if len(sources) < want {
		t.Errorf("%d snippets found, want %d at least", len(sources), want)
	}
	compile(t, sources)
}

// source surrounds a snippet.
func source(snippet string) string {
	body := fmt.Sprintf(frame, snippet)
	head := "package snippet\n\nimport \"context\"\n"
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(body) {
			head += fmt.Sprintf("import %s %q\n", name, path)
		}
	}
	return head + body
}

// compile builds packages of this module that are only overlaid, all at once.
// Each is named for its snippet, so that the compiler says which one is amiss.
func compile(t *testing.T, sources map[string]string) {
	t.Helper()
	dir, replaced := t.TempDir(), map[string]string{}
	for path, text := range sources {
		seen, err := filepath.Abs(filepath.Join(path, "snippet.go"))
		if err != nil {
			t.Fatal(err)
		}
		replaced[seen] = filepath.Join(dir, filepath.Base(path)+".go")
		write(t, replaced[seen], []byte(text))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	write(t, file, overlay)
	args := append([]string{"build", "-overlay=" + file}, slices.Sorted(maps.Keys(sources))...)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
