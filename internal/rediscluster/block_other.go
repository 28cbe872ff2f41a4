//go:build !linux

package rediscluster

import "strconv"

// blocks is the number of blocks of a hundred ports, below those that systems
// give to clients; a node's bus has its port plus 10,000.
const blocks = 100

// addr returns the address of node n, from 1, or the lock's with n 0. There is
// one loopback address here, so the nodes differ by port.
func (b *block) addr(n int) (host, port string) {
	return "127.0.0.1", strconv.Itoa(10_000 + 100*b.id + n)
}
