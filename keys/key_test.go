package keys_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/keys"
)

func TestForEncodesTheSubject(t *testing.T) {
	for _, tt := range []struct{ subject, want string }{
		{"user:42", "rl:{user:42}:api:AAAA"},
		{"}", "rl:{%7D}:api:AAAA"},
		{"{a}", "rl:{%7Ba%7D}:api:AAAA"},
		{"%7B", "rl:{%257B}:api:AAAA"},
		{"%h", "rl:{%25h}:api:AAAA"},
		{"\x00\x1f \x7f\x80", "rl:{%00%1F %7F\x80}:api:AAAA"},
		{"日本\xff", "rl:{日本\xff}:api:AAAA"},
		{strings.Repeat("a", 128), "rl:{" + strings.Repeat("a", 128) + "}:api:AAAA"},
		{strings.Repeat("{", 128), "rl:{" + strings.Repeat("%7B", 128) + "}:api:AAAA"},
		{strings.Repeat("a", 129), "rl:{" + hashed(strings.Repeat("a", 129)) + "}:api:AAAA"},
	} {
		if got := keys.For("rl", tt.subject, "api", "AAAA"); got != tt.want {
			t.Errorf("For(%q) = %q, want %q", tt.subject, got, tt.want)
		}
	}
}

func TestOddSubjectsHaveKeysOfTheirOwn(t *testing.T) {
	odd := []string{
		"}", "}x", "{a}", "a}b", "{}", "{", "%7B", "%7D", "%257B", "%", "%h", "%p0.2.AAA",
		"\x00", "\x00\x00", "\n", "\x7f", " ", "a", "a ", ":", "a:b", "a}:api:AAAA",
		strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 1<<10), strings.Repeat("x", 100<<10),
		strings.Repeat("}", 1<<10), hashed(strings.Repeat("x", 129)),
		"é", "e\u0301", "日本語", "\U0001f600", "\xff", "\xc3", "\xc3\x28", "\ufffd",
	}
	seen := map[string]string{}
	for _, subject := range odd {
		key := keys.For("rl", subject, "api", "AAAA")
		if other, ok := seen[key]; ok {
			t.Errorf("For(%.20q) = For(%.20q) = %q", subject, other, key)
		}
		seen[key] = subject
		checkKey(t, key, subject)
	}
}

func TestKeysOfOneSubjectShareASlot(t *testing.T) {
	want := keys.Slot(keys.For("rl", "{a}", "api", "AAAA"))
	for _, key := range []string{
		keys.For("other:prefix", "{a}", "api", "AAAA"),
		keys.For("rl", "{a}", "login", "BBBB"),
		keys.InWindow(keys.For("rl", "{a}", "api", "AAAA"), -7),
	} {
		if got := keys.Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

func FuzzFor(f *testing.F) {
	long := strings.Repeat("x", 129)
	for _, pair := range [][2]string{
		{"a", "b"},
		{"{", "%7B"},
		{"%", "%25"},
		{"\x00", "%00"},
		{"}", "}x"},
		{long, hashed(long)},
		{long, long + "x"},
		{"\xff", "\ufffd"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		keyA, keyB := keys.For("rl", a, "api", "AAAA"), keys.For("rl", b, "api", "AAAA")
		if (keyA == keyB) != (a == b) {
			t.Errorf("For(%q) = %q, For(%q) = %q", a, keyA, b, keyB)
		}
		for key, subject := range map[string]string{keyA: a, keyB: b} {
			if subject != "" {
				checkKey(t, key, subject)
			}
		}
	})
}

// checkKey checks that key, which belongs to subject, is where its tag says, and
// that the tag tells the subject, so that no other can have it.
func checkKey(t *testing.T, key, subject string) {
	t.Helper()
	tag := keys.Tag(key)
	if want := "rl:{" + tag + "}:api:AAAA"; key != want {
		t.Errorf("For(%.40q) = %q, but the tag %q makes it %q", subject, key, tag, want)
	}
	if slot := keys.Slot(key); slot != slotBitwise(tag) {
		t.Errorf("Slot(%q) = %d, want %d", key, slot, slotBitwise(tag))
	}
	if len(subject) > 128 {
		if tag != hashed(subject) {
			t.Errorf("Tag(%q) = %q, want %q", key, tag, hashed(subject))
		}
		return
	}
	if got, err := url.PathUnescape(tag); err != nil || got != subject {
		t.Errorf("Tag(%q) = %q, which reads %q, %v; want %q", key, tag, got, err, subject)
	}
}

// hashed is how a long subject stands in a key, by its description.
func hashed(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return "%h" + base64.URLEncoding.EncodeToString(sum[:])[:22]
}

// sink makes what a benchmark builds escape to the heap, as a real key does.
var sink string

func BenchmarkFor(b *testing.B) {
	for _, bm := range []struct{ name, subject string }{
		{"plain", "user:0123456789"},
		{"escaped", "{user}:0123456789"},
		{"hashed", strings.Repeat("x", 1<<10)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = keys.For("rl", bm.subject, "api", "AAAA")
			}
		})
	}
}

func ExampleFor() {
	fmt.Println(keys.For("rl", "user:42", "api", "x5Bq"))
	fmt.Println(keys.For("rl", "{50%}", "api", "x5Bq"))
	// Output:
	// rl:{user:42}:api:x5Bq
	// rl:{%7B50%25%7D}:api:x5Bq
}
