package hotkey

import (
	"hash/maphash"
	"time"
)

// LeaseTime is how long a lease may be spent after it was asked for: one
// constant of the protocol, which the scripts count lent units by.
const LeaseTime = 200 * time.Millisecond

// MaxSubject is the longest subject, in bytes, that the tier keeps anything of.
// Calls for longer ones go to Redis.
const MaxSubject = 1024

// Spec is what all keys of one policy share: made once for each, and never
// changed after.
type Spec struct {
	// Policy says what is counted, by a hash of the policy's name and shape.
	// Two policies of equal Policy count in the same keys.
	Policy uint64
	// Version is a hash of all that decides: what is known under one version
	// says nothing under another.
	Version uint64
	// Name is what Inspect calls the policy.
	Name string
	// Part and Parts say which part of what the policy's subjects may use this
	// is, counted from 1, and of how many; 0: it isn't split.
	Part, Parts int
	// NoLease is why no key of the policy is ever leased; the zero value: they
	// may be.
	NoLease Reason
	// SettleAlone says that an ask settles one lease and asks for nothing then:
	// the leases of different windows are in different keys.
	SettleAlone bool
	// Owner is whatever the Asker needs to know of the policy.
	Owner any
}

// Key is one subject's count under a policy.
type Key struct {
	Spec    *Spec
	Subject string
}

// same reports whether k and o are counted together, maybe by two versions of a
// policy.
func (k Key) same(o Key) bool { return k.under(o.Spec) && k.Subject == o.Subject }

// under reports whether k is counted under the policy of s.
func (k Key) under(s *Spec) bool { return k.Spec == s || k.Spec.Policy == s.Policy }

// hash returns a hash of what is counted. The seed keeps those who choose
// subjects from choosing collisions.
func (k Key) hash(seed maphash.Seed) uint64 {
	return maphash.String(seed, k.Subject) ^ mix(k.Spec.Policy)
}

// mix spreads the bits of x, as splitmix64 does.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
