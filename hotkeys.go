package shardlimit

import (
	"fmt"
	"hash/fnv"
	"io"

	"github.com/shardlimit/shardlimit/hotkey"
)

// HotKeysConfig bounds what a Limiter keeps to decide by itself: of subjects
// that are asked for often, leases, and of those that were refused, for how long
// they will be. Zero values are good defaults. NewLocal keeps nothing of it.
type HotKeysConfig struct {
	// Entries is how many subjects may be hot at once, of some 500 bytes each; 0
	// means 50,000. Calls for others go to Redis.
	Entries int
	// DenialBytes is the memory for refusals of subjects that aren't hot; 0
	// means 16 MiB, enough for some 35,000, and 64 GiB is the most. A fifth more
	// is taken from the start, to tell which of them are worth it.
	DenialBytes int64
	// HotRate is how many requests a second make a subject hot: 20 at least,
	// which 0 means.
	HotRate float64
	// Workers is how many leases may be asked for at once, each in a goroutine
	// of its own; 0 means 32.
	Workers int
}

// faults returns every fault of c.
func (c HotKeysConfig) faults() []error {
	var faults []error
	fault := func(bad bool, field string, value any, reason string) {
		if bad {
			faults = append(faults, &ConfigError{Field: "HotKeys." + field, Value: value, Reason: reason})
		}
	}
	fault(c.Entries < 0, "Entries", c.Entries, "must not be negative")
	fault(c.DenialBytes < 0 || c.DenialBytes > hotkey.MaxDenialBytes, "DenialBytes", c.DenialBytes, "must be 0 to 64 GiB")
	fault(c.HotRate != 0 && !(c.HotRate >= minHotRate), "HotRate", c.HotRate, "must be at least 20; 0 means 20")
	fault(c.Workers < 0, "Workers", c.Workers, "must not be negative")
	return faults
}

// minHotRate is 4 requests in a lease time: below it a lease saves no calls.
const minHotRate = 20

// LeaseMode says whether a policy's units are lent to processes.
type LeaseMode uint8

const (
	// LeaseAuto lends units of a subject that is asked for often, and of which
	// there are enough, to the processes that ask for it: each then decides by
	// itself until its lease ends, after 200 ms at most. What is lent is charged
	// in Redis first, so no more pass than without; what a process has not spent
	// when its lease ends it gives back, and others may be refused it meanwhile.
	// It is the zero value.
	//
	// Lent are units of a single TokenBucket that holds four times what it
	// refills in 200 ms, of a SlidingWindow, and of a FixedWindow of at least a
	// second. All others decide in Redis each time, as under LeaseOff.
	LeaseAuto LeaseMode = iota
	// LeaseOff lends nothing.
	LeaseOff
)

// String returns "auto" or "off".
func (m LeaseMode) String() string {
	if m == LeaseOff {
		return "off"
	}
	return "auto"
}

// hot returns what the local tier has to know of the policy.
func (p *Policy) hot() *hotkey.Spec {
	version := []string{p.config.Timeout.String(), p.config.Leases.String()}
	for _, l := range p.config.Limits {
		version = append(version, l.String())
	}
	s := &hotkey.Spec{
		Policy:      hash(p.config.Name, p.shape),
		Version:     hash(version...),
		Name:        p.config.Name,
		NoLease:     p.noLease(),
		SettleAlone: p.plan.Windowed(),
		Owner:       p,
	}
	if p.part > 0 {
		s.Part, s.Parts = p.part, p.config.Parts
		s.Policy = hash(p.config.Name, p.shape, fmt.Sprintf("part %d of %d", s.Part, s.Parts))
	}
	return s
}

// noLease returns why the policy's units are never lent, if so.
func (p *Policy) noLease() hotkey.Reason {
	switch {
	case p.config.Leases == LeaseOff:
		return hotkey.Off
	case p.plan.Leasable():
		return hotkey.Leasable
	case len(p.config.Limits) == 1 && p.config.Limits[0].Algorithm == TokenBucket:
		return hotkey.SmallBurst
	default:
		return hotkey.BadAlgorithm
	}
}

// hash returns a hash of texts that hold no zero byte.
func hash(texts ...string) uint64 {
	h := fnv.New64a()
	for _, text := range texts {
		_, _ = io.WriteString(h, text+"\x00") // never fails
	}
	return h.Sum64()
}
