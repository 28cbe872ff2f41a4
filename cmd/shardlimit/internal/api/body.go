package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	maxBody   = 1 << 20 // the bytes of a request that are read
	usualBody = 8 << 10 // more than so many take room once they are there, not once they are promised
)

// readBody returns the JSON text that is the body of r, or why there is none.
func readBody(w http.ResponseWriter, r *http.Request) (string, *Problem) {
	if p := checkKind(r.Header); p != nil {
		return "", p
	}
	if r.ContentLength > maxBody { // before a client that waits to be told so sends it
		return "", unread(&http.MaxBytesError{Limit: maxBody})
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), usualBody)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return "", unread(err)
	}
	text := body.Bytes()
	if !utf8.Valid(text) {
		return "", malformed("is not UTF-8: a subject of other bytes goes into subject_base64")
	}
	if !json.Valid(text) {
		return "", malformed(syntax(json.Unmarshal(text, new(json.RawMessage))))
	}
	if !paired(text) {
		return "", malformed("has half of a surrogate pair: a subject that is no text goes into subject_base64")
	}
	return string(text), nil
}

// escapes are those of JSON: of two code units that are a character together, of
// one, and others.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|.)`)

// paired reports whether no escape in JSON is half a character. All of those
// would be read as one and the same.
func paired(text []byte) bool {
	if !bytes.Contains(text, []byte(`\u`)) { // as most are
		return true
	}
	return !slices.ContainsFunc(escapes.FindAll(text, -1), func(escape []byte) bool {
		half, err := strconv.ParseUint(string(escape[2:]), 16, 16)
		return err == nil && utf16.IsSurrogate(rune(half))
	})
}

// jsonType is the media type of bodies and answers.
const jsonType = "application/json"

// checkKind returns why a body under this header can't be read.
func checkKind(header http.Header) *Problem {
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return wrongKind("Content-Encoding %q: want none", coding)
	}
	written := header.Get("Content-Type")
	if written == jsonType { // as most have it
		return nil
	}
	if kind, _, err := mime.ParseMediaType(written); err == nil && kind == jsonType {
		return nil
	}
	return wrongKind("Content-Type %q: want "+jsonType, written)
}

func wrongKind(detail, written string) *Problem {
	return problem(http.StatusUnsupportedMediaType, "wrong-media-type", "The body must be JSON.", fmt.Sprintf(detail, written))
}

// unread returns why a body could not be read.
func unread(err error) *Problem {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem(http.StatusRequestEntityTooLarge, "too-large", "The body is too large.",
			fmt.Sprintf("more than %d bytes", tooLarge.Limit))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem(http.StatusRequestTimeout, "too-slow", "The body took too long to arrive.", "")
	}
	return malformed("ended early")
}

// syntax says where text is no JSON.
func syntax(err error) string {
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("is not JSON: at byte %d: %v", s.Offset, s)
	}
	return "is not JSON"
}

// field is a member that an object may have.
type field struct {
	name string
	to   any // points at the variable that takes it
	seen bool
}

// object reads the JSON object that text is into the variables of its fields,
// and returns what is wrong with it, of very much the first. Names count as they
// are written, each once.
func object(text string, fields []field) (faults []FieldError) {
	o := gjson.Parse(text)
	if !o.IsObject() {
		return []FieldError{{Value: shown(text), Reason: "must be an object"}}
	}
	o.ForEach(func(key, value gjson.Result) bool {
		var name string
		decode(key, &name)
		if reason := member(fields, name, value); reason != "" {
			faults = append(faults, FieldError{Field: name, Value: shown(value.Raw), Reason: reason})
		}
		return len(faults) < maxFaults
	})
	return faults
}

// member reads the value of one of the fields, and returns what is wrong with it.
func member(fields []field, name string, value gjson.Result) string {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return "unknown field: want " + names(fields)
	}
	f := &fields[i]
	if f.seen {
		return "is there already"
	}
	f.seen = true
	if !read(value, f.to) {
		return "must be " + kind(f.to)
	}
	return ""
}

// given reports whether the text had one of these fields.
func given(fields []field, names ...string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.seen && slices.Contains(names, f.name) })
}

// names returns the names of all fields, sorted.
func names(fields []field) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// read reads a value into the variable that to points at, and reports whether
// it can be that. Null is no value.
func read(value gjson.Result, to any) bool {
	switch to := to.(type) {
	case *string:
		return value.Type == gjson.String && decode(value, to)
	case *[]byte:
		if value.Type != gjson.String { // encoding/json takes a list of numbers too
			return false
		}
	case *[]string:
		if value.IsArray() {
			*to = []string{} // which is not nil, though it may be empty
			value.ForEach(func(_, item gjson.Result) bool {
				*to = append(*to, item.Raw)
				return true
			})
			return true
		}
	}
	return value.Type != gjson.Null && json.Unmarshal([]byte(value.Raw), to) == nil
}

// decode reads text, and reports whether it is that.
func decode(value gjson.Result, to *string) bool {
	if value.Type == gjson.String && !strings.Contains(value.Raw, `\`) { // as most are
		*to = strings.Clone(value.Str) // what keeps it must not keep the whole body
		return true
	}
	return json.Unmarshal([]byte(value.Raw), to) == nil
}

// kind returns what the variable that to points at can be.
func kind(to any) string {
	switch to.(type) {
	case *bool:
		return "true or false"
	case **int64, *int64:
		return "a whole number below 2^63, in digits alone"
	case *[]string:
		return "a list"
	case *[]byte:
		return "base64"
	default:
		return "text"
	}
}

// shown returns a value as a problem shows it.
func shown(value string) any {
	if len(value) > maxShown {
		return cut(value)
	}
	return json.RawMessage(value)
}
