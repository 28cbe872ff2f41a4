package keys

import "strconv"

// Window returns the index of the window that now falls in: the number of whole
// periods since the epoch, negative before it. Both are in µs, period > 0.
func Window(now, period int64) int64 {
	index := now / period
	if now%period < 0 { // Go divides towards zero
		index--
	}
	return index
}

// InWindow returns the key that belongs to key in the window of that index.
func InWindow(key string, index int64) string {
	var b [20]byte // the longest int64 with its sign
	return key + ":" + string(strconv.AppendInt(b[:0], index, 10))
}
