package page

import (
	"strings"
	"testing"
	"time"
)

func TestFiguresSuitTheirSize(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{rate(0), "0"},
		{rate(0.01), "< 0.1"},
		{rate(0.96), "1.0"},
		{rate(9.94), "9.9"},
		{rate(9.96), "10"},
		{rate(1234.5), "1,235"},
		{rate(99_999), "99,999"},
		{rate(123_456), "123 k"},
		{rate(999_499), "999 k"},
		{rate(999_999), "1.00 M"},
		{rate(12_345_678), "12.35 M"},
		{percent(0, 0), "–"},
		{percent(0, 5), "0 %"},
		{percent(1, 1_000_000), "< 0.1 %"},
		{percent(1, 8), "12.5 %"},
		{percent(999_999, 1_000_000), "99.9 %"},
		{percent(5, 5), "100 %"},
		{span(0), "0 ms"},
		{span(230 * time.Millisecond), "230 ms"},
		{span(1440 * time.Millisecond), "1.4 s"},
		{span(59 * time.Second), "59 s"},
		{span(200 * time.Second), "3 min 20 s"},
		{span(125 * time.Minute), "2 h 5 min"},
		{span(75 * time.Hour), "3 d 3 h"},
		{bytes(1023), "1023 B"},
		{bytes(1536), "1.5 KiB"},
		{bytes(3 << 20), "3.0 MiB"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestVisibleShowsAllThatIsThere(t *testing.T) {
	for text, want := range map[string]string{
		"user:42":            "user:42",
		`say "hi"`:           `say "hi"`,
		`a\"b\\`:             `a\\"b\\\\`,
		"a\x00b\n":           `a\x00b\n`,
		"\xff":               `\xff`,
		"\u202Ertl\u2069":    `\u202ertl\u2069`,
		"no\u00a0break":      `no\u00a0break`,
		"\ufeffmark":         `\ufeffmark`,
		"利用者 مستخدم e\u0301": "利用者 مستخدم e\u0301",
	} {
		if got := visible(text); got != want {
			t.Errorf("visible(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSubjectsAreCutWhereTheyAreLong(t *testing.T) {
	short := strings.Repeat("é", 60)
	if got := newSubject(short); got != (subject{Text: short}) {
		t.Errorf("60 characters: %+v, want all of them", got)
	}
	got := newSubject(strings.Repeat("a", 36) + "\x00\xff" + strings.Repeat("b", 2000))
	want := subject{
		Text: strings.Repeat("a", 36) + "…" + strings.Repeat("b", 16),
		Full: "2,038 bytes: " + strings.Repeat("a", 36) + `\x00\xff` + strings.Repeat("b", 1024-38) + "…",
	}
	if got != want {
		t.Errorf("2,038 bytes: %+v,\nwant %+v", got, want)
	}
	if got := clip("aé", 2); got != "a…" {
		t.Errorf(`clip("aé", 2) = %q, want no half character`, got)
	}
}
