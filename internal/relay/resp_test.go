package relay

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFramesKeepsBytesAndFindsWords(t *testing.T) {
	for _, c := range []struct {
		raw   string
		words []string
	}{
		{"+OK\r\n", nil},
		{"-ERR no\r\n", nil},
		{":-12\r\n", nil},
		{"_\r\n", nil},
		{"#t\r\n", nil},
		{",1.5e3\r\n", nil},
		{"(12345678901234567890\r\n", nil},
		{"$-1\r\n", nil},
		{"$0\r\n\r\n", []string{""}},
		{"$5\r\na\r\nb\x00\r\n", []string{"a\r\nb\x00"}},
		{"=7\r\ntxt:abc\r\n", []string{"txt:abc"}},
		{"!7\r\nERR bad\r\n", []string{"ERR bad"}},
		{"*-1\r\n", nil},
		{"*0\r\n", nil},
		{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", []string{"GET", "k"}},
		{"*2\r\n*1\r\n:1\r\n~1\r\n$1\r\nx\r\n", []string{"x"}},
		{"%1\r\n+k\r\n$1\r\nv\r\n", []string{"v"}},
		{">2\r\n+message\r\n+hello\r\n", nil},
		{"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n", []string{"v"}},
	} {
		in := newFrames(strings.NewReader(c.raw + "+NEXT\r\n"))
		got, err := in.next()
		if err != nil || string(got.raw) != c.raw {
			t.Errorf("next of %q = %q, %v", c.raw, got.raw, err)
			continue
		}
		if diff := cmp.Diff(c.words, got.words); diff != "" {
			t.Errorf("words of %q (-want +got)\n%s", c.raw, diff)
		}
		if got.push() != (c.raw[0] == '>') {
			t.Errorf("push of %q = %v", c.raw, got.push())
		}
		if next, err := in.next(); err != nil || string(next.raw) != "+NEXT\r\n" {
			t.Errorf("after %q comes %q, %v", c.raw, next.raw, err)
		}
	}
}

func TestFramesRefusesWhatIsNotRESP(t *testing.T) {
	for _, raw := range []string{
		"", "\r\n", "+OK\n", "PING\r\n", "$x\r\n", "$-2\r\n", "$3\r\nab\r\n", "$2\r\nabc\r\n", "*2\r\n:1\r\n", "*?\r\n",
		"$99999999999\r\n", strings.Repeat("*1\r\n", 100),
	} {
		if got, err := newFrames(strings.NewReader(raw)).next(); err == nil {
			t.Errorf("next of %q = %q, want an error", raw, got.raw)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("|1\r\n+ttl\r\n:3\r\n%1\r\n+k\r\n*-1\r\n"))
	f.Add([]byte("$-1\r\n>1\r\n_\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := newFrames(bytes.NewReader(data))
		var read []byte
		for {
			got, err := in.next()
			if err != nil {
				break
			}
			read = append(read, got.raw...)
		}
		if !bytes.HasPrefix(data, read) {
			t.Errorf("%q was read as %q", data, read)
		}
	})
}
