package hotkey

import (
	"fmt"
	"slices"
)

// Reason is why a key has no lease.
type Reason uint8

// The reasons. The first is the zero value.
const (
	Leasable      Reason = iota // none: it has a lease, or gets one
	Off                         // the policy says so
	BadAlgorithm                // its algorithm is never leased, or it has several limits
	SmallBurst                  // the burst holds less than four lease times of the rate
	SmallShare                  // too little is asked for in a lease time, or this process's share of the rate is too small: below four units
	WindowSpent                 // less than a tenth of the window remains
	NothingLeft                 // all is used or lent: ask again later
	AskFailed                   // the latest ask had no answer
	Cold                        // not asked for often enough
	TableFull                   // as many keys as may have entries are hot already
	reasonsNumber = iota
)

var reasons = [reasonsNumber]string{
	Leasable:     "",
	Off:          "leases are off",
	BadAlgorithm: "never leased: algorithm",
	SmallBurst:   "burst below 4 lease times of the rate",
	SmallShare:   "below 4 units a lease",
	WindowSpent:  "less than a tenth of the window remains",
	NothingLeft:  "nothing left to lend",
	AskFailed:    "the latest ask failed",
	Cold:         "not hot",
	TableFull:    "table full",
}

// String returns the reason in words, "" of Leasable.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// MarshalText returns the reason in words.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText wrote. Other words are an error, and leave
// r as it is.
func (r *Reason) UnmarshalText(text []byte) error {
	i := slices.Index(reasons[:], string(text))
	if i < 0 {
		return fmt.Errorf("hotkey: no Reason is %q", text)
	}
	*r = Reason(i)
	return nil
}
