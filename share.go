package shardlimit

import "math"

// Share returns l with the share f, above 0 and at most 1, of its rate and its
// burst, as for one of several regions that have a cluster each. It rounds down
// to whole units, so that shares whose sum is 1 never pass more together than l.
// Where less than one unit is left of either, or f is another number, it returns
// the zero Limit, which NewPolicy refuses.
func (l Limit) Share(f float64) Limit {
	rate, burst := share(l.Rate, f), share(l.Burst, f)
	if rate == 0 || burst == 0 && l.Burst != 0 {
		return Limit{}
	}
	l.Rate, l.Burst = rate, burst
	return l
}

// share returns the greatest number of n units that is at most the share f.
func share(n int64, f float64) int64 {
	if n < 1 || !(f > 0 && f <= 1) {
		return 0
	}
	part := math.Floor(float64(n) * f)
	if next := part + 1; next/float64(n) <= f { // the product was rounded down
		part = next
	}
	return int64(part)
}
