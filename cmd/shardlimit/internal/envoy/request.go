package envoy

import (
	"errors"
	"fmt"
	"math"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
)

// matchOne returns the check of one descriptor. The error begins with the field
// at fault.
func matchOne(set *domains.Set, req *ratelimit.RateLimitRequest, d *descriptor.RateLimitDescriptor) (check, error) {
	if len(d.GetEntries()) == 0 {
		return check{}, errors.New("entries: must have at least one")
	}
	for i, e := range d.GetEntries() {
		if e.GetKey() == "" {
			return check{}, fmt.Errorf("entries[%d].key: must not be empty", i)
		}
	}
	if d.GetIsNegativeHits() {
		return check{}, errors.New("is_negative_hits: is not taken over: hits can't be given back")
	}
	c := check{hits: hits(req, d)}
	var err error
	if d.GetLimit() == nil {
		c.Match, _ = set.Find(req.GetDomain(), entries(d))
		return c, nil
	}
	c.Match, _, err = set.FindOr(req.GetDomain(), entries(d), brought(d.GetLimit()))
	if err != nil {
		return check{}, overrideFault(err)
	}
	return c, nil
}

// hits returns how many hits a descriptor is: its own number, else the
// request's, of which 0 means that it isn't set.
func hits(req *ratelimit.RateLimitRequest, d *descriptor.RateLimitDescriptor) int64 {
	if own := d.GetHitsAddend(); own != nil {
		return int64(min(own.GetValue(), math.MaxInt64))
	}
	return int64(max(req.GetHitsAddend(), 1))
}

// entries returns a descriptor's entries.
func entries(d *descriptor.RateLimitDescriptor) []domains.Entry {
	all := make([]domains.Entry, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		all[i] = domains.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return all
}

// brought returns the limit that a request brings. The units of both enums have
// the same numbers.
func brought(l *descriptor.RateLimitDescriptor_RateLimitOverride) domains.Limit {
	return domains.Limit{
		Requests:   l.GetRequestsPerUnit(),
		Unit:       domains.Unit(l.GetUnit()),
		Multiplier: l.GetUnitMultiplier().GetValue(),
	}
}

// overrideFault says what is wrong with a limit that a request brings.
func overrideFault(err error) error {
	if c, ok := errors.AsType[*shardlimit.ConfigError](err); ok {
		return fmt.Errorf("limit: %v %s", c.Value, c.Reason)
	}
	return fmt.Errorf("limit: %w", err)
}
