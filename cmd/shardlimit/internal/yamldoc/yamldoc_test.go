package yamldoc_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// read reads a document with the keys text, flag, whole and list, of which
// "other" is another program's, and returns what it has and its faults.
func read(t *testing.T, document string) (got map[string]any, faults string) {
	t.Helper()
	bodies, wrong := yamldoc.Parse([]byte(document))
	if len(bodies) != 1 {
		t.Fatalf("Parse(%q): %d documents, %v", document, len(bodies), wrong)
	}
	r := &yamldoc.Reader{Refused: map[string]string{"other": "it is another's"}}
	got = map[string]any{}
	var flag bool
	r.Mapping("", bodies[0], map[string]yamldoc.Field{
		"text": func(r *yamldoc.Reader, at string, n ast.Node) { got[at], _ = r.Scalar(at, n) },
		"flag": func(r *yamldoc.Reader, at string, n ast.Node) {
			yamldoc.Boolean(&flag)(r, at, n)
			got[at] = flag
		},
		"whole": func(r *yamldoc.Reader, at string, n ast.Node) { got[at], _ = r.Whole(at, n, 1, 9) },
		"list":  func(r *yamldoc.Reader, at string, n ast.Node) { got[at] = len(r.Items(at, n)) },
	})
	if err := r.Faults.Sorted(); err != nil {
		faults = err.Error()
	}
	return got, faults
}

func TestReaderReadsValuesAnchorsAndAliases(t *testing.T) {
	got, faults := read(t, "text: &a words\nflag: true\nwhole: 7\nlist: [*a, *a, x]\n")
	want := map[string]any{"text": "words", "flag": true, "whole": uint64(7), "list": 3}
	if diff := cmp.Diff(want, got); diff != "" || faults != "" {
		t.Errorf("(-want +got)\n%s\nfaults %s", diff, faults)
	}
}

func TestReaderGoesOnWhereAValueIsAtFault(t *testing.T) {
	_, faults := read(t, "whole: 10\ntext: 1\nelse: x\nother: {}\nflag: no\nlist:\n  a: b\n")
	const want = `1:8: whole: 10 must be a whole number from 1 to 9
2:7: text: 1 must be text: put it in quotes
3:1: else: unknown key: want flag, list, text or whole
4:1: other: is not taken over: it is another's
5:7: flag: no must be true or false
7:3: list: must be a list`
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNullIsAsIfItWereLeftOut(t *testing.T) {
	if got, faults := read(t, "text:\nlist: ~\n"); len(got) != 0 || faults != "" {
		t.Errorf("got %v, faults %s; want nothing", got, faults)
	}
}

func TestTextThatIsNoYAMLIsAFault(t *testing.T) {
	_, faults := yamldoc.Parse([]byte("a: 1\na: 2\n"))
	if len(faults) != 1 || faults[0].Line != 2 || faults[0].Column != 1 {
		t.Errorf("a key that is there twice: %v, want one fault at 2:1", faults)
	}
}

func TestFaultsAreInTheOrderOfTheirFiles(t *testing.T) {
	faults := yamldoc.FileError{
		{Path: "b", Line: 1, Column: 1, Reason: "third"},
		{Path: "a", Line: 2, Column: 9, Field: "f", Reason: "second"},
		{Path: "a", Line: 2, Column: 1, Reason: "first"},
	}
	const want = "a:2:1: first\na:2:9: f: second\nb:1:1: third"
	if err := faults.Sorted(); err == nil || err.Error() != want {
		t.Errorf("Sorted: %v, want\n%s", err, want)
	}
	if err := (yamldoc.FileError{}).Sorted(); err != nil {
		t.Errorf("Sorted of none: %v, want nil", err)
	}
}

func TestAliasesStandForWhatIsBeforeThemWhateverIsReadFirst(t *testing.T) {
	bodies, faults := yamldoc.Parse([]byte("later: {whole: &w 7, list: &l [x, y]}\ntext: &w words\nlist: *l\nwhole: *w\n"))
	if faults != nil {
		t.Fatal(faults)
	}
	var r yamldoc.Reader
	var list []ast.Node
	var whole string
	r.Mapping("", bodies[0], map[string]yamldoc.Field{
		"later": func(*yamldoc.Reader, string, ast.Node) {}, // read by nobody
		"text":  func(*yamldoc.Reader, string, ast.Node) {},
		"list":  func(r *yamldoc.Reader, at string, n ast.Node) { list = r.Items(at, n) },
		"whole": func(r *yamldoc.Reader, at string, n ast.Node) { whole, _ = r.Scalar(at, n) },
	})
	if len(list) != 2 || whole != "words" || r.Faults != nil {
		t.Errorf("list %v, whole %q, faults %v; want x and y, and the anchor w as it was last", list, whole, r.Faults)
	}
}

func TestTextThatNoReaderCanReadIsAFaultAtItsPlace(t *testing.T) {
	bomb := "a0: &a0 [x]\n"
	for _, level := range []string{"1", "2", "3", "4", "5", "6"} {
		below := "*a" + string(level[0]-1)
		bomb += "a" + level + ": &a" + level + " [" + strings.Repeat(below+", ", 20) + below + "]\n"
	}
	for text, want := range map[string]string{
		"a: *b\n":                    "1:4: *b: no anchor before it has this name",
		"a: [*b, &b 1]\n":            "1:5: *b: no anchor before it has this name",
		"a: &a *a\n":                 "1:7: unexpected scalar value type",
		"a: &b 1\n---\na: *b\n":      "3:4: *b: no anchor before it has this name",
		"a: !!str 1\nb: !mine {}\n":  "1:4: !!str: tags are not taken\n2:4: !mine: tags are not taken",
		"a: b\nc: \"\u00e9\xff\"\n":  "2:6: is not UTF-8",
		"\ufeffa: [\n":               "1:4: sequence end token ']' not found",
		bomb:                         "1:1: has more than 1000000 values, with all that its aliases stand for",
		"a: &a [" + "*a, *a" + "]\n": "",
	} {
		_, faults := yamldoc.Parse([]byte(text))
		var got string
		if faults != nil {
			got = faults.Error()
		}
		if got != want {
			t.Errorf("Parse(%.40q):\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestDocumentsMayBeginWithAMarkOrADirective(t *testing.T) {
	for _, before := range []string{"\ufeff", "%YAML 1.2\n---\n", "\ufeff---\n"} {
		got, faults := read(t, before+"text: words\n")
		if got["text"] != "words" || faults != "" {
			t.Errorf("after %q: %v, %s", before, got, faults)
		}
	}
}
