package cluster

// queue holds the commands that wait for a pipeline, oldest first. Any of them
// can leave it.
type queue struct {
	first, last *command
	length      int
}

// push puts c behind all others.
func (q *queue) push(c *command) {
	c.prev, c.next, c.queued = q.last, nil, true
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.length++
}

// pop takes out the oldest; there must be one.
func (q *queue) pop() *command {
	c := q.first
	q.remove(c)
	return c
}

// remove takes c out. It reports false if it was not, or no more, in here.
func (q *queue) remove(c *command) bool {
	if !c.queued {
		return false
	}
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.queued = nil, nil, false
	q.length--
	return true
}
