package ledger

import (
	"math"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
)

// Terms is what an account is held against: a policy's limits, and whether its
// units may be lent. The zero Leases is that of a policy; where nothing decides
// but Redis or a store without a local tier, it's LeaseOff.
type Terms struct {
	Limits []shardlimit.Limit
	Leases shardlimit.LeaseMode
}

// Lends reports whether units of a subject may be lent.
func (t Terms) Lends() bool { return t.lendable() > 0 }

// lendable returns the most units of a subject that its leases hold together: a
// quarter of what the limit can hold, as internal/rule and lease.lua lend them
// (room), and none where that is less than the least lease (leastShare) or where
// [shardlimit.LeaseAuto] lends nothing.
//
// As many may be missing to whoever asks meanwhile: the README's table promises
// no more while leases are on.
func (t Terms) lendable() int64 {
	const share, least = 4, 4
	if t.Leases == shardlimit.LeaseOff || len(t.Limits) != 1 || !leasable(t.Limits[0]) {
		return 0
	}
	if quarter := capacity(t.Limits[0]) / share; quarter >= least {
		return quarter
	}
	return 0
}

// leasable reports whether units of a limit are lent to a policy that has no
// other.
func leasable(l shardlimit.Limit) bool {
	switch l.Algorithm {
	case shardlimit.TokenBucket:
		return float64(capacity(l))*emission(l) >= 4*float64(hotkey.LeaseTime)
	case shardlimit.SlidingWindow, shardlimit.FixedWindow:
		return l.Period >= time.Second
	default:
		return false
	}
}

// waiting returns the most units of a bucket that may wait in it, or in leases,
// for someone who keeps asking for more than it refills: what leases hold, and
// what comes in while a denial is known, for DenialTTL at most. Where nothing is
// lent, denials are known for no longer than they are right.
func (t Terms) waiting() int64 {
	lent := t.lendable()
	if lent == 0 {
		return 0
	}
	return lent + int64(math.Ceil(float64(hotkey.DenialTTL)/emission(t.Limits[0])))
}
