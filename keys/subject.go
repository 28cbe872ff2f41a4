package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// maxSubject is the longest subject, in bytes, that stands in a key as itself.
const maxSubject = 128

// Mask returns a subject to use in place of one that must not be read from
// Redis, such as an address: "hmac:" and 22 characters of base64url
// HMAC-SHA256, 132 bits. Among 10^12 subjects two share a mask with a
// probability of about 10^-16, and only a holder of key can look for such a
// pair, or for a plain subject that reads like another's mask.
func Mask(key []byte, subject string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(subject))
	return "hmac:" + digest(mac.Sum(nil))
}

// encode returns subject as it stands in a hash tag. Braces would move or empty
// the tag, control bytes upset terminals and logs, and '%' announces an escape:
// those are percent-encoded. A subject over maxSubject bytes becomes "%h" and
// its digest. No two encodings meet: a '%' in a subject is always "%25", so
// neither "%h" nor the "%p" of a part can come from the subject's own text.
func encode(subject string) string {
	if len(subject) > maxSubject {
		sum := sha256.Sum256([]byte(subject))
		return "%h" + digest(sum[:])
	}
	escapes := 0
	for i := range len(subject) {
		if mustEscape(subject[i]) {
			escapes++
		}
	}
	if escapes == 0 {
		return subject
	}
	return escape(subject, len(subject)+2*escapes)
}

// escape percent-encodes s into size bytes.
func escape(s string, size int) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(size)
	for i := range len(s) {
		if c := s[i]; mustEscape(c) {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEscape(c byte) bool {
	return c < ' ' || c == 0x7f || c == '{' || c == '}' || c == '%'
}

// digest returns the first 22 characters of sum in base64url: 132 bits, so that
// to meet another's digest takes 2^132 tries. A pair of one's own takes 2^66,
// and gains nothing: the two only share one limit.
func digest(sum []byte) string {
	return base64.RawURLEncoding.EncodeToString(sum)[:22]
}
