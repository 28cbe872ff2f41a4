package cluster

// Hooks are told what a Client does. Those that are nil cost nothing; the
// others are called by many at once, and calls wait for them.
type Hooks struct {
	// Sending is told of each batch that is about to go out: the shard's
	// address, and how many calls; 1 where a caller sends its call by itself.
	Sending func(shard string, calls int)
	// Reloading is told of each occasion to ask anew who serves what. The
	// Redis client does so in the background, at most every 200 ms.
	Reloading func()
}

func (h *Hooks) sending(shard string, calls int) {
	if h.Sending != nil {
		h.Sending(shard, calls)
	}
}

func (h *Hooks) reloading() {
	if h.Reloading != nil {
		h.Reloading()
	}
}
