package rediscluster

import "fmt"

// blocks is the number of blocks: 127.100.0 to 127.199.255.
const blocks = 100 * 256

// addr returns the address of node n, from 1, or the lock's with n 0: on Linux
// all of 127.0.0.0/8 is there to be bound to, so that each node can have the
// usual kind of port and an address of its own.
func (b *block) addr(n int) (host, port string) {
	return fmt.Sprintf("127.%d.%d.%d", 100+b.id/256, b.id%256, 1+n), "7000"
}
