package keys_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/keys"
)

func TestPartsLieEvenlyRoundTheSlots(t *testing.T) {
	forRandomParts(t, func(subject string, parts int) {
		own := int(keys.Slot(keys.For("rl", subject, "api", "AAAA")))
		for part := range parts {
			key := keys.ForPart("rl", subject, "api", "AAAA", part, parts)
			want := (own + part*keys.Slots/parts) % keys.Slots
			if got := int(keys.Slot(key)); got != want {
				t.Errorf("Slot(%q) = %d, want %d: subject in %d", key, got, want, own)
			}
		}
	})
}

func TestEachOfThreeShardsHoldsItsShareOfParts(t *testing.T) {
	forRandomParts(t, func(subject string, parts int) {
		var held [3]int
		for part := range parts {
			slot := int(keys.Slot(keys.ForPart("rl", subject, "api", "AAAA", part, parts)))
			held[slot*3/keys.Slots]++
		}
		for shard, n := range held {
			if off := 3*n - parts; off < -3 || off > 3 {
				t.Errorf("shard %d holds %d of %d parts of %q", shard, n, parts, subject)
			}
		}
	})
}

// forRandomParts calls check with random subjects for each number of parts.
func forRandomParts(t *testing.T, check func(subject string, parts int)) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for parts := 2; parts <= 64; parts++ {
		for range 20 {
			check(fmt.Sprintf("{user}:%d", rng.Uint64()), parts)
		}
	}
}

func TestPartsOfOddSubjectsHaveKeysOfTheirOwn(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	seen := map[string]bool{}
	var want int
	for _, subject := range []string{"a", "}", "{}", "%", "%p0.2.AAA", "a%p0.2.AAA", "\x00", "\xff", long, hashed(long)} {
		seen[keys.For("rl", subject, "api", "AAAA")] = true
		want++
		for _, parts := range []int{2, 3, 64} {
			for part := range parts {
				seen[keys.ForPart("rl", subject, "api", "AAAA", part, parts)] = true
				want++
			}
		}
	}
	if len(seen) != want {
		t.Errorf("%d keys for %d parts and subjects", len(seen), want)
	}
}

func FuzzForPart(f *testing.F) {
	f.Add("user:42", 0, 2)
	f.Add("{%p0.2.AAA}", 63, 64)
	f.Fuzz(func(t *testing.T, subject string, part, parts int) {
		if subject == "" || parts < 2 || parts > 64 || part < 0 || part >= parts {
			return
		}
		key := keys.ForPart("rl", subject, "api", "AAAA", part, parts)
		own := keys.Tag(keys.For("rl", subject, "api", "AAAA"))
		text, salt := key[:len(key)-len("SSS}:api:AAAA")], key[len(key)-len("SSS}:api:AAAA"):][:3]
		if want := fmt.Sprintf("rl:{%s%%p%d.%d.", own, part, parts); text != want {
			t.Errorf("ForPart(%q, %d, %d) = %q, want %q and a salt", subject, part, parts, key, want)
		}
		if strings.ContainsAny(salt, "{}%") {
			t.Errorf("ForPart(%q, %d, %d) = %q, with the salt %q", subject, part, parts, key, salt)
		}
		if got, err := url.PathUnescape(keys.Tag(key)); err == nil {
			t.Errorf("Tag(%q) could belong to the subject %q", key, got)
		}
		slot, want := int(keys.Slot(key)), (int(slotBitwise(own))+part*keys.Slots/parts)%keys.Slots
		if slot != want {
			t.Errorf("Slot(%q) = %d, want %d", key, slot, want)
		}
	})
}

func BenchmarkForPart(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sink = keys.ForPart("rl", "user:0123456789", "api", "AAAA", 5, 16)
	}
}

func ExampleForPart() {
	for part := range 4 {
		key := keys.ForPart("rl", "user:42", "api", "x5Bq", part, 4)
		fmt.Println(key, keys.Slot(key))
	}
	// Output:
	// rl:{user:42%p0.4.9lu}:api:x5Bq 15880
	// rl:{user:42%p1.4._5Z}:api:x5Bq 3592
	// rl:{user:42%p2.4.-XG}:api:x5Bq 7688
	// rl:{user:42%p3.4.76c}:api:x5Bq 11784
}
