package hotkey

import (
	"math"
	"sync/atomic"
	"time"
)

// heat estimates how often each key is asked for: a count-min sketch whose
// counts are halved each second. It never counts too few, and too many by no
// more than e/heatWidth of all there is for all but one key in e^4, whatever
// the number of keys. It is safe for concurrent use; newHeat makes one.
type heat struct {
	rows   [heatRows][heatWidth]atomic.Uint32
	halved atomic.Int64 // moment of the latest halving
	top    top
}

const (
	heatRows  = 4
	heatBits  = 15
	heatWidth = 1 << heatBits
	heatTime  = time.Second // between halvings
)

// heatFactors make the rows' hashes of one: odd numbers without a pattern.
// Rows that share a hash share their collisions, and are as good as one.
var heatFactors = [heatRows]uint64{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0xd6e8feb86659fd93}

func newHeat() *heat {
	h := &heat{}
	h.top.index = map[uint64]int{}
	return h
}

// observe counts n requests for the key, and returns how many there are a
// second.
func (h *heat) observe(k Key, hash uint64, n int64, now moment) float64 {
	h.cool(now)
	count := h.add(hash, uint32(min(n, math.MaxInt32)))
	h.top.offer(k, hash, count)
	return h.rate(count, now)
}

// add counts n more, and returns the count.
func (h *heat) add(hash uint64, n uint32) uint32 {
	count := uint32(math.MaxUint32)
	for i := range h.rows {
		c := &h.rows[i][hash*heatFactors[i]>>(64-heatBits)]
		count = min(count, c.Add(n))
	}
	return count
}

// rate returns the rate that a count stands for: with halvings each heatTime,
// what is asked for steadily has this count between them.
func (h *heat) rate(count uint32, now moment) float64 {
	elapsed := now.since(moment(h.halved.Load()))
	return float64(count) / (heatTime + max(elapsed, 0)).Seconds()
}

// cool halves all counts once for each heatTime that has passed. One caller
// does it; what others add meanwhile is not lost.
func (h *heat) cool(now moment) {
	last := h.halved.Load()
	times := int64(now-moment(last)) / int64(heatTime)
	if times < 1 || !h.halved.CompareAndSwap(last, last+times*int64(heatTime)) {
		return
	}
	shift := min(times, 32)
	for i := range h.rows {
		for j := range h.rows[i] {
			c := &h.rows[i][j]
			if v := c.Load(); v != 0 {
				c.Add(v>>shift - v)
			}
		}
	}
	h.top.cool(shift)
}
