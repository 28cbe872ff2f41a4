package hotkey

import (
	"container/heap"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// top is the keys with the greatest counts, a hundred of them. Who finds it
// locked goes on without: the key comes again.
type top struct {
	floor atomic.Uint32 // the least count in it once it is full

	mu    sync.Mutex
	heap  counts
	index map[uint64]int // in heap, by hash
}

const topKeys = 100

// counted is a key and its count.
type counted struct {
	key   Key
	hash  uint64
	count uint32
}

// offer puts the key in if its count is among the greatest.
func (t *top) offer(k Key, hash uint64, count uint32) {
	if count <= t.floor.Load() || !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	t.heap.index = t.index
	if i, ok := t.index[hash]; ok {
		t.heap.items[i].count = count
		heap.Fix(&t.heap, i)
	} else {
		k.Subject = strings.Clone(k.Subject)
		heap.Push(&t.heap, counted{key: k, hash: hash, count: count})
		if len(t.heap.items) > topKeys {
			heap.Pop(&t.heap)
		}
	}
	t.setFloorLocked()
}

func (t *top) setFloorLocked() {
	var floor uint32
	if len(t.heap.items) >= topKeys {
		floor = t.heap.items[0].count
	}
	t.floor.Store(floor)
}

// cool divides all counts by 2^shift, and drops what is nothing then.
func (t *top) cool(shift int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.heap.items {
		t.heap.items[i].count >>= shift
	}
	t.heap.items = slices.DeleteFunc(t.heap.items, func(c counted) bool { return c.count == 0 })
	clear(t.index)
	for i, c := range t.heap.items {
		t.index[c.hash] = i
	}
	t.heap.index = t.index
	heap.Init(&t.heap)
	t.setFloorLocked()
}

// list returns the keys, greatest count first.
func (t *top) list() []counted {
	t.mu.Lock()
	list := slices.Clone(t.heap.items)
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b counted) int { return int(int64(b.count) - int64(a.count)) })
	return list
}

// counts is a heap of keys, least count first, that knows where each is.
type counts struct {
	items []counted
	index map[uint64]int
}

// Len is of heap.Interface, as are the others.
func (c *counts) Len() int { return len(c.items) }

// Less orders by count.
func (c *counts) Less(i, j int) bool { return c.items[i].count < c.items[j].count }

// Swap keeps the index.
func (c *counts) Swap(i, j int) {
	c.items[i], c.items[j] = c.items[j], c.items[i]
	c.index[c.items[i].hash], c.index[c.items[j].hash] = i, j
}

// Push appends a counted.
func (c *counts) Push(x any) {
	item := x.(counted)
	c.index[item.hash] = len(c.items)
	c.items = append(c.items, item)
}

// Pop removes the last.
func (c *counts) Pop() any {
	last := len(c.items) - 1
	item := c.items[last]
	c.items[last] = counted{}
	c.items = c.items[:last]
	delete(c.index, item.hash)
	return item
}
