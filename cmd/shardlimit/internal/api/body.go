package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxBody is the bytes of a request that are read.
const maxBody = 1 << 20

// readBody returns the JSON text that is the body of r, or why there is none.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, problem(http.StatusUnsupportedMediaType, "wrong-media-type", "The body must be JSON.",
			fmt.Sprintf("Content-Type %q: want application/json", r.Header.Get("Content-Type")))
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, unread(err)
	}
	if !utf8.Valid(text) {
		return nil, malformed("is not UTF-8: a subject of other bytes goes into subject_base64")
	}
	if !json.Valid(text) {
		return nil, malformed(syntax(json.Unmarshal(text, new(json.RawMessage))))
	}
	return text, nil
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

// object reads the fields of the JSON object that text is into the variables
// that they name, and returns what is wrong with them. at begins the fields'
// names. Names count as they are written, each once.
func object(at string, text []byte, fields map[string]any) (faults []FieldError) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return []FieldError{{Field: strings.TrimSuffix(at, "."), Value: shown(text), Reason: "must be an object"}}
	}
	var seen []string
	for d.More() {
		name, value, err := member(d)
		if err != nil {
			return append(faults, FieldError{Field: at, Reason: "is not JSON"})
		}
		to, known := fields[name]
		switch {
		case !known:
			want := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			faults = append(faults, FieldError{Field: at + name, Value: shown(value), Reason: "unknown field: want " + want})
		case slices.Contains(seen, name):
			faults = append(faults, FieldError{Field: at + name, Value: shown(value), Reason: "is there already"})
		default:
			if err := json.Unmarshal(value, to); err != nil {
				faults = append(faults, FieldError{Field: at + name, Value: shown(value), Reason: "must be " + kind(to)})
			}
		}
		seen = append(seen, name)
	}
	return faults
}

// member returns the next member of an object.
func member(d *json.Decoder) (name string, value json.RawMessage, err error) {
	t, err := d.Token()
	if err != nil {
		return "", nil, err
	}
	name, _ = t.(string)
	err = d.Decode(&value)
	return name, value, err
}

// kind returns what the variable that to points at can be.
func kind(to any) string {
	switch to.(type) {
	case *bool:
		return "true or false"
	case **int64, *int64:
		return "a whole number"
	case *[]json.RawMessage:
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
func shown(value []byte) any {
	if len(value) > maxShown {
		return strings.ToValidUTF8(string(value[:maxShown]), "") + "…"
	}
	return json.RawMessage(value)
}
