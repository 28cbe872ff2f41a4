package shardlimit

// FailureMode is what a policy answers where Redis can't: because the shard
// that owns the subject is away, or slower than the Timeout. Faults that waiting
// does not mend, such as a missing permission, are errors under every mode.
//
// The zero FailureMode is FailOpen().
type FailureMode struct {
	closed bool
}

// FailOpen allows, and grants all that was asked for: better no limit than no
// service.
func FailOpen() FailureMode { return FailureMode{} }

// FailClosed denies, and says to ask again after the Timeout: better no service
// than no limit.
func FailClosed() FailureMode { return FailureMode{closed: true} }

// String returns "open" or "closed".
func (m FailureMode) String() string {
	if m.closed {
		return "closed"
	}
	return "open"
}
