package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// body is what the fuzz test reads, as encoding/json can read it too.
type body struct {
	Text  string
	Bytes []byte
	Cost  *int64
	Yes   bool
	List  []string
}

func (b *body) fields() []field {
	return []field{
		{name: "text", to: &b.Text},
		{name: "bytes", to: &b.Bytes},
		{name: "cost", to: &b.Cost},
		{name: "yes", to: &b.Yes},
		{name: "list", to: &b.List},
	}
}

func FuzzObject(f *testing.F) {
	for _, text := range []string{
		`{"text":"a","bytes":"YQ==","cost":7,"yes":true,"list":[{"a":1}, 2,"x"]}`,
		`{"text":"\ud83d\ude00\ud800\u0041 \" \\","\u0074ext":"b"}`, `{"te\u0078t":"b","list":null,"yes":null,"text":7,"bytes":null}`,
		"\t{ \"cost\" : 1e3 , \"cost\":-9223372036854775808,\"yes\":0,\"list\":[ ] } ", `{"cost":9223372036854775808,"bytes":"?"}`,
		`[]`, `null`, `"{}"`, `{"":{},"list":{"a":[]},"text":{"text":"a"}}`, `{"list":[[1,[2]],"]",{"]":"["}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || !json.Valid([]byte(text)) || !paired([]byte(text)) {
			return // readBody refuses it
		}
		var got, want body
		faults := object(text, got.fields())
		if diff := cmp.Diff(reference(t, text, &want), faultyFields(faults)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	})
}

func faultyFields(faults []FieldError) (names []string) {
	for _, f := range faults {
		names = append(names, f.Field)
	}
	return names
}

// reference reads text by encoding/json, and returns the names of the members
// that are wrong.
func reference(t *testing.T, text string, b *body) (faulty []string) {
	d := json.NewDecoder(strings.NewReader(text))
	if start, _ := d.Token(); start != json.Delim('{') {
		return []string{""}
	}
	fields, seen := b.fields(), []string{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		name, _ := key.(string)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 || slices.Contains(seen, name) || !assign(value, fields[i].to) {
			faulty = append(faulty, name)
		}
		seen = append(seen, name)
	}
	return faulty
}

// assign reads a value, of a list the text of each item. Null is none.
func assign(value json.RawMessage, to any) bool {
	if _, isBytes := to.(*[]byte); string(value) == "null" || isBytes && value[0] != '"' {
		return false
	}
	list, ok := to.(*[]string)
	if !ok {
		return json.Unmarshal(value, to) == nil
	}
	var items []json.RawMessage
	if json.Unmarshal(value, &items) != nil {
		return false
	}
	for _, item := range items {
		*list = append(*list, string(item))
	}
	if items != nil && *list == nil {
		*list = []string{}
	}
	return true
}
