package shardlimit

import (
	"errors"
	"fmt"
)

// FailureMode is what a policy answers where Redis can't: because the shard
// that owns the subject is away, or slower than the Timeout. Faults that waiting
// does not mend, such as a missing permission, are errors under every mode.
//
// The zero FailureMode is FailOpen().
type FailureMode struct {
	kind  failureKind
	share float64 // of failLocal
}

type failureKind uint8

const (
	failOpen failureKind = iota
	failClosed
	failLocal
)

// FailOpen allows, and grants all that was asked for: better no limit than no
// service.
func FailOpen() FailureMode { return FailureMode{} }

// FailClosed denies, and says to ask again after the Timeout: better no service
// than no limit.
func FailClosed() FailureMode { return FailureMode{kind: failClosed} }

// FailLocal decides in this process, by the share of each limit, above 0 and at
// most 1, as [Limit.Share] has it: with ten instances, a tenth keeps all of them
// together within the rate. NewPolicy refuses a share that leaves less than one
// unit of a limit.
//
// What is used of the share is kept apart from what Redis keeps, for as long as
// the Limiter lives and it counts, so that a shard which comes and goes grants
// it once: over an outage, one instance admits beyond the limit at most the share
// of the burst, and the share of the rate for as long as it lasts. A cost above
// what the share can hold is denied, and told to ask again after the Timeout. So
// are subjects that are new once about 65,000 are kept.
func FailLocal(share float64) FailureMode { return FailureMode{kind: failLocal, share: share} }

// String returns "open", "closed", or "local" and the share, as in "local 0.1".
func (m FailureMode) String() string {
	switch m.kind {
	case failClosed:
		return "closed"
	case failLocal:
		return fmt.Sprintf("local %v", m.share)
	default:
		return "open"
	}
}

// shares returns the share of each limit.
func (m FailureMode) shares(limits []Limit) []Limit {
	shares := make([]Limit, len(limits))
	for i, l := range limits {
		shares[i] = l.Share(m.share)
	}
	return shares
}

// check returns why m can't be the mode of a policy of these limits. Of limits
// that are invalid themselves it says nothing.
func (m FailureMode) check(limits []Limit) error {
	fault := func(reason string) error { return &ConfigError{Field: "OnFailure", Value: m, Reason: reason} }
	switch {
	case m.kind != failLocal:
		return nil
	case !(m.share > 0 && m.share <= 1):
		return fault("the share must be above 0 and at most 1")
	}
	var faults []error
	for i, share := range m.shares(limits) {
		switch {
		case limits[i].check("") != nil:
		case share == Limit{}:
			faults = append(faults, fault(fmt.Sprintf("leaves less than one unit of Limits[%d], %v", i, limits[i])))
		case share.check("") != nil: // the burst lost less to rounding than the rate
			faults = append(faults, fault(fmt.Sprintf("leaves %v of Limits[%d], %v, which is invalid", share, i, limits[i])))
		}
	}
	return errors.Join(faults...)
}
