package keys

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// Term is what one limit of a policy gives to the shape of its state. Rate and
// burst are not in it: where they change, the same state is met.
type Term struct {
	Algorithm string // as in a limit's text: token_bucket, gcra, …
	Period    int64  // µs
}

// Shape returns 4 characters that stand for the layout of a policy's state: the
// version of the layout, and its terms in order. Versions of a policy that lay
// their state out differently so never read each other's, also while both run.
//
// It is the first 24 bits, in base64url, of the SHA-256 of "v<version>" and of
// ";<algorithm>/<period>" for each term, numbers in decimal. Two different shapes
// are equal once in 2^24 pairs.
func Shape(version int, terms ...Term) string {
	text := strconv.AppendInt([]byte{'v'}, int64(version), 10)
	for _, t := range terms {
		text = append(text, ';')
		text = append(text, t.Algorithm...)
		text = append(text, '/')
		text = strconv.AppendInt(text, t.Period, 10)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:3])
}
