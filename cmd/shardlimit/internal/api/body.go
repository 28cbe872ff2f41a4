package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	maxBody   = 1 << 20 // the bytes of a request that are read
	usualBody = 8 << 10 // more than so many take room once they are there, not once they are promised
)

// readBody returns the JSON text that is the body of r, or why there is none.
func readBody(w http.ResponseWriter, r *http.Request) (string, *Problem) {
	if p := checkKind(r.Header.Get("Content-Type")); p != nil {
		return "", p
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
	return string(text), nil
}

// jsonType is the media type of bodies and answers.
const jsonType = "application/json"

// checkKind returns why a body of this Content-Type can't be read.
func checkKind(header string) *Problem {
	if header == jsonType { // as most have it
		return nil
	}
	if kind, _, err := mime.ParseMediaType(header); err == nil && kind == jsonType {
		return nil
	}
	return problem(http.StatusUnsupportedMediaType, "wrong-media-type", "The body must be JSON.",
		fmt.Sprintf("Content-Type %q: want %s", header, jsonType))
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
// and returns what is wrong with it. Names count as they are written, each once.
func object(text string, fields []field) (faults []FieldError) {
	o := gjson.Parse(text)
	if !o.IsObject() {
		return []FieldError{{Value: shown(text), Reason: "must be an object"}}
	}
	o.ForEach(func(key, value gjson.Result) bool {
		var name string
		read(key, &name)
		if reason := member(fields, name, value); reason != "" {
			faults = append(faults, FieldError{Field: name, Value: shown(value.Raw), Reason: reason})
		}
		return true
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
// it can be that.
func read(value gjson.Result, to any) bool {
	switch to := to.(type) {
	case *string:
		if value.Type == gjson.String && !strings.Contains(value.Raw, `\`) { // as most are
			*to = strings.Clone(value.Str) // what keeps it must not keep the whole body
			return true
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
	return json.Unmarshal([]byte(value.Raw), to) == nil
}

// kind returns what the variable that to points at can be.
func kind(to any) string {
	switch to.(type) {
	case *bool:
		return "true or false"
	case **int64, *int64:
		return "a whole number"
	case *[]string:
		return "a list"
	case *[]byte:
		return "base64"
	default:
		return "text"
	}
}

// maxShown is the bytes of a value that a problem shows.
const maxShown = 64

// shown returns a value as a problem shows it.
func shown(value string) any {
	if len(value) > maxShown {
		return strings.ToValidUTF8(value[:maxShown], "") + "…"
	}
	return json.RawMessage(value)
}
