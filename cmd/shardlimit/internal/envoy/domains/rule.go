package domains

import (
	"math"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
)

// Rule is what the configuration says of a descriptor.
type Rule struct {
	Limit Limit
	// Policy decides; nil where the rule is Unlimited, or lets nothing pass.
	Policy *shardlimit.Policy
	// Name is the limit's own, "" for none. Replaces names the limits that don't
	// count in a request for which this rule holds too.
	Name      string
	Replaces  []string
	Unlimited bool
	Shadow    bool // what would be refused passes
	Quota     bool // refuses a request only along with all others of its kind
}

// Limit is a number of requests in a period.
type Limit struct {
	Requests   uint32
	Unit       Unit
	Multiplier uint32 // of the unit; 0 means 1
}

// Unit is a unit of time.
type Unit = ratelimit.RateLimitResponse_RateLimit_Unit

// The seconds in units. A month is 30 days and a year 365: windows of that
// length, counted from 1970, not those of a calendar.
var seconds = map[Unit]uint64{
	ratelimit.RateLimitResponse_RateLimit_SECOND: 1,
	ratelimit.RateLimitResponse_RateLimit_MINUTE: 60,
	ratelimit.RateLimitResponse_RateLimit_HOUR:   60 * 60,
	ratelimit.RateLimitResponse_RateLimit_DAY:    24 * 60 * 60,
	ratelimit.RateLimitResponse_RateLimit_WEEK:   7 * 24 * 60 * 60,
	ratelimit.RateLimitResponse_RateLimit_MONTH:  30 * 24 * 60 * 60,
	ratelimit.RateLimitResponse_RateLimit_YEAR:   365 * 24 * 60 * 60,
}

// Period returns the period, 0 where the unit is none.
func (l Limit) Period() time.Duration {
	s := seconds[l.Unit] * uint64(max(l.Multiplier, 1)) // below 2^57
	return time.Duration(min(s, math.MaxInt64/uint64(time.Second))) * time.Second
}

// checkPeriod returns what is wrong with the period, whatever the requests are,
// as a *shardlimit.ConfigError.
func (l Limit) checkPeriod() error {
	_, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{
		Name:   "period",
		Limits: []shardlimit.Limit{{Algorithm: shardlimit.FixedWindow, Rate: 1, Period: l.Period()}},
	})
	return err
}
