package keys_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/keys"
)

func TestSlotIsXMODEMOfTheTag(t *testing.T) {
	for _, tt := range []struct {
		key  string
		want uint16
	}{
		{"", 0},
		{"123456789", 0x31C3}, // the check value in the cluster spec
		{"{123456789}", 0x31C3},
		{"rl:{123456789}:api:AAAA", 0x31C3},
		{"foo", 12182},
		{"bar", 5061},
		{"{foo}{bar}", 12182},
	} {
		if got := keys.Slot(tt.key); got != tt.want {
			t.Errorf("Slot(%q) = %d, want %d", tt.key, got, tt.want)
		}
	}
}

func TestTag(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"", ""},
		{"user:42", "user:42"},
		{"{user:42}:api", "user:42"},
		{"{}user:42", "{}user:42"},     // an empty tag counts as none
		{"{}{user:42}", "{}{user:42}"}, // also with another behind it
		{"a{b}c{d}", "b"},              // only the first tag counts
		{"a{b", "a{b"},                 // never closed
		{"a}b{c}", "c"},                // closed before it is opened
		{"a{{b}}c", "{b"},              // the first '}' ends it
	} {
		if got := keys.Tag(tt.key); got != tt.want {
			t.Errorf("Tag(%q) = %q, want %q", tt.key, got, tt.want)
		}
	}
}

func FuzzSlot(f *testing.F) {
	for _, key := range []string{"", "123456789", "{a}b", "{}a", "a{{b}}c", "\xff{\x00}"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		got := keys.Slot(key)
		if got >= keys.Slots {
			t.Fatalf("Slot(%q) = %d, out of range", key, got)
		}
		if want := slotBitwise(keys.Tag(key)); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
		if tag := keys.Tag(key); tag != "" && !strings.ContainsAny(tag, "{}") {
			if alone := keys.Slot("{" + tag + "}:x"); alone != got {
				t.Errorf("Slot(%q) = %d, but its tag %q is in %d", key, got, tag, alone)
			}
		}
	})
}

// slotBitwise divides the text's polynomial by CRC-16's, a bit at a time.
func slotBitwise(text string) uint16 {
	var rest uint32
	for _, b := range append([]byte(text), 0, 0) {
		for i := 7; i >= 0; i-- {
			rest = rest<<1 | uint32(b>>i&1)
			if rest&0x10000 != 0 {
				rest ^= 0x11021
			}
		}
	}
	return uint16(rest % keys.Slots)
}

func BenchmarkSlot(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		keys.Slot("rl:{user:0123456789}:api:AAAA")
	}
}

func ExampleSlot() {
	fmt.Println(keys.Slot("{user:42}:api"), keys.Slot("{user:42}:web"))
	// Output: 15880 15880
}
