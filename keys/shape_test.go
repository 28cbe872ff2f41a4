package keys_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/shardlimit/shardlimit/keys"
)

// The shapes below are in the keys of running deployments: a change of any of
// them makes every limit start empty.
func TestShapeNeverChanges(t *testing.T) {
	bucket := keys.Term{Algorithm: "token_bucket", Period: 1_000_000}
	window := keys.Term{Algorithm: "fixed_window", Period: 86_400_000_000}
	for _, tt := range []struct {
		text    string
		version int
		terms   []keys.Term
		want    string
	}{
		{"v1", 1, nil, "O_wm"},
		{"v1;token_bucket/1000000", 1, []keys.Term{bucket}, "18Z5"},
		{"v2;token_bucket/1000000", 2, []keys.Term{bucket}, "BiKJ"},
		{"v1;token_bucket/1000000;fixed_window/86400000000", 1, []keys.Term{bucket, window}, "9SMl"},
		{"v1;fixed_window/86400000000;token_bucket/1000000", 1, []keys.Term{window, bucket}, "WhyX"},
	} {
		got := keys.Shape(tt.version, tt.terms...)
		if got != tt.want {
			t.Errorf("Shape(%d, %v) = %q, want %q", tt.version, tt.terms, got, tt.want)
		}
		sum := sha256.Sum256([]byte(tt.text))
		if derived := base64.URLEncoding.EncodeToString(sum[:])[:4]; got != derived {
			t.Errorf("Shape(%d, %v) = %q, but %q hashes to %q", tt.version, tt.terms, got, tt.text, derived)
		}
	}
}

func ExampleShape() {
	fmt.Println(keys.Shape(1, keys.Term{Algorithm: "gcra", Period: 60_000_000}))
	// Output: yEv0
}
