package domains

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

// Settings is what holds for all rules, as the reference's format has no words
// for it.
type Settings struct {
	Algorithm shardlimit.Algorithm
	OnFailure shardlimit.FailureMode
	Timeout   time.Duration // 0: the Limiter's
	Leases    shardlimit.LeaseMode
	// Merge takes domains that several documents have as one; else they are
	// faults.
	Merge bool
}

// Default returns the settings under which limits are those of the reference: in
// windows that begin at whole periods since 1970.
func Default() Settings { return Settings{Algorithm: shardlimit.FixedWindow} }
