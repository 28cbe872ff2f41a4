package keys_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"github.com/shardlimit/shardlimit/keys"
)

func TestMaskIsAnHMAC(t *testing.T) {
	key := []byte("secret")
	for _, subject := range []string{"", "192.0.2.1", "{a}", "\x00\xff"} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(subject))
		want := "hmac:" + base64.URLEncoding.EncodeToString(mac.Sum(nil))[:22]
		if got := keys.Mask(key, subject); got != want {
			t.Errorf("Mask(%q) = %q, want %q", subject, got, want)
		}
	}
}

func TestMaskDependsOnKeyAndSubject(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range []string{"k", "k2"} {
		for _, subject := range []string{"a", "b", keys.Mask([]byte(key), "a")} {
			seen[keys.Mask([]byte(key), subject)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("Mask gave %d masks for 6 keys and subjects: %v", len(seen), seen)
	}
}

func TestMaskStandsInAKeyAsItIs(t *testing.T) {
	mask := keys.Mask([]byte("secret"), "192.0.2.1")
	if got := keys.Tag(keys.For("rl", mask, "api", "AAAA")); got != mask {
		t.Errorf("Tag(For(%q)) = %q", mask, got)
	}
}
