package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
)

// setFields sets the fields of the IETF's draft on RateLimit header fields:
// what the policy is, and where the subject stands.
func setFields(h http.Header, p *shardlimit.Policy, r shardlimit.Result) {
	var policies []string
	for _, l := range p.Limits() {
		policies = append(policies, fmt.Sprintf("%s;q=%d;w=%d", itemName(p, l), l.Rate, seconds(l.Period)))
	}
	h.Set("RateLimit-Policy", strings.Join(policies, ", "))
	if r.Failure == nil {
		h.Set("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", itemName(p, r.Limit), r.Remaining, seconds(r.ResetAfter)))
	}
	if !r.Allowed {
		h.Set("Retry-After", strconv.FormatInt(seconds(r.RetryAfter), 10))
	}
}

// itemName returns the name of one of the policy's limits.
func itemName(p *shardlimit.Policy, l shardlimit.Limit) string {
	if len(p.Limits()) == 1 {
		return strconv.Quote(p.Name())
	}
	return strconv.Quote(p.Name() + ":" + l.String())
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
