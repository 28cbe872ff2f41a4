package shardlimit_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the text of each document, without its blocks of code, by
// its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	more, errDocs := filepath.Glob("docs/*.md")
	if err != nil || errDocs != nil {
		t.Fatal(err, errDocs)
	}
	texts := map[string]string{}
	for _, p := range append(paths, more...) {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		texts[p] = codeBlock.ReplaceAllString(string(text), "")
	}
	return texts
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	texts := documents(t)
	for doc, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, fragment, _ := strings.Cut(m[1], "#")
			target := path.Join(path.Dir(doc), file)
			if file == "" {
				target = doc
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
			if fragment != "" && !hasHeading(texts[target], fragment) {
				t.Errorf("%s links to %s: there is no such heading", doc, m[1])
			}
		}
	}
}

// hasHeading reports whether one of the text's headings has the anchor.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}

func TestRowsOfTheDocumentsTablesHaveTheirHeadersColumns(t *testing.T) {
	for doc, text := range documents(t) {
		columns := 0
		for line := range strings.Lines(text) {
			n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			switch {
			case !strings.HasPrefix(line, "|"):
				columns = 0
			case columns == 0:
				columns = n
			case n != columns:
				t.Errorf("%s: %d columns under a header of %d:\n%s", doc, n-1, columns-1, line)
			}
		}
	}
}

// TestTheMapNamesEveryFile holds ARCHITECTURE.md's table to the tree: a file that
// is named is there, and in those packages whose files are named one by one, each
// is named.
func TestTheMapNamesEveryFile(t *testing.T) {
	_, table, _ := strings.Cut(documents(t)["ARCHITECTURE.md"], "## Where things are")
	named := map[string]string{} // the rows of each package
	at := ""
	for line := range strings.Lines(table) {
		if m := packageRow.FindStringSubmatch(line); m != nil {
			at = strings.Trim(m[1], "`/")
		}
		named[at] += line
	}
	named["."] = named["root"]
	for _, dir := range []string{".", "keys", "cluster", "failover", "hotkey", "metrics", "middleware"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := "`" + filepath.Base(f) + "`"
			if !strings.HasSuffix(f, "_test.go") && name != "`doc.go`" && !strings.Contains(named[dir], name) {
				t.Errorf("%s is not in the map", f)
			}
		}
		for _, m := range fileName.FindAllStringSubmatch(named[dir], -1) {
			if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
				t.Errorf("the map names %s in %s: %v", m[1], dir, err)
			}
		}
	}
}

var (
	packageRow = regexp.MustCompile(`^\| \*\*([^*]+)\*\*`)
	fileName   = regexp.MustCompile("`([a-z_]+\\.go)`")
)
