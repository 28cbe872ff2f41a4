package middleware

import (
	"fmt"
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
)

// SetHeaders adds what the draft on RateLimit fields says of a decision to h,
// and Retry-After if it is a denial. Fields that are there already, as of
// another policy, stay.
//
//	RateLimit-Policy: "api";q=100;w=1;shardlimit-burst=200
//	RateLimit: "api";r=199;t=2
//	Retry-After: 1
//
// RateLimit-Policy lists each limit of the policy: q units in w seconds, and
// the units at once where that is another number. Where a period isn't whole
// seconds, w is rounded up to them, and q is what passes then. A policy of
// several limits names each by its text, as in "api:1000/h".
//
// RateLimit is about the limit that binds. Of a denial, t is Retry-After. Else
// it is a time in which r units are no more than the limit's rate, or the next
// unit's wait if r is 0; under a window or a log it is at least what is left
// until all is back. So r units spread evenly over t seconds never outrun the
// limit. There is no RateLimit where a failure mode decided, since nobody knows
// what is left, nor for a result that names no limit.
//
// Retry-After is in whole seconds, rounded up: who waits so long passes, if
// nobody else asks for the same subject meanwhile.
//
// Of a Shadow policy it says nothing: clients are not to heed limits that are only
// tried out.
func SetHeaders(h http.Header, p *shardlimit.Policy, r shardlimit.Result) {
	if p.Shadow() {
		return
	}
	limits := p.Limits()
	items := make([]string, len(limits))
	for i, l := range limits {
		items[i] = policyItem(itemName(p, limits, l), l)
	}
	h.Add("RateLimit-Policy", strings.Join(items, ", "))
	if r.Failure == nil && r.Limit.Rate > 0 { // a Limiter of the caller's own may name none
		name := itemName(p, limits, r.Limit)
		h.Add("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", name, r.Remaining, effectiveWindow(r)))
	}
	if !r.Allowed {
		h.Set("Retry-After", strconv.FormatInt(seconds(r.RetryAfter), 10))
	}
}

// setOldHeaders sets the fields of before the draft. Where a failure mode
// decided, or the policy is a Shadow, there is nothing to say.
func setOldHeaders(h http.Header, p *shardlimit.Policy, r shardlimit.Result) {
	if r.Failure != nil || r.Limit.Rate <= 0 || p.Shadow() {
		return
	}
	h.Set("X-RateLimit-Limit", strconv.FormatInt(atOnce(r.Limit), 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(r.Remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(seconds(r.ResetAfter), 10))
}

// itemName returns the name of a limit among those of p, as a String of RFC
// 9651. Names of policies and limits as text are printable ASCII, of which Go
// escapes the same two characters.
func itemName(p *shardlimit.Policy, limits []shardlimit.Limit, l shardlimit.Limit) string {
	if len(limits) == 1 {
		return strconv.Quote(p.Name())
	}
	return strconv.Quote(p.Name() + ":" + l.String())
}

// policyItem returns a limit as an item of RateLimit-Policy.
func policyItem(name string, l shardlimit.Limit) string {
	w := seconds(l.Period)
	q, _ := scale(l.Rate, w*int64(time.Second), int64(l.Period))
	item := fmt.Sprintf("%s;q=%d;w=%d", name, q, w)
	if b := atOnce(l); b != l.Rate {
		item += fmt.Sprintf(";shardlimit-burst=%d", b)
	}
	return item
}

// effectiveWindow returns the parameter t of a decision, as SetHeaders says.
func effectiveWindow(r shardlimit.Result) int64 {
	if !r.Allowed {
		return seconds(r.RetryAfter)
	}
	l := r.Limit
	t, rest := scale(max(r.Remaining, 1), int64(l.Period), l.Rate*int64(time.Second))
	if rest > 0 {
		t++
	}
	if l.Algorithm == shardlimit.TokenBucket || l.Algorithm == shardlimit.GCRA {
		return t
	}
	return max(t, seconds(r.ResetAfter))
}

// atOnce returns the units of a limit that may pass at once.
func atOnce(l shardlimit.Limit) int64 {
	if l.Burst != 0 {
		return l.Burst
	}
	return l.Rate
}

// scale returns n * num / den and the remainder; the product may be above 64
// bits, the quotient may not.
func scale(n, num, den int64) (quotient, remainder int64) {
	hi, lo := bits.Mul64(uint64(n), uint64(num))
	q, r := bits.Div64(hi, lo, uint64(den))
	return int64(q), int64(r)
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
