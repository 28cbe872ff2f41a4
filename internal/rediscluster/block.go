package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// block is a range of loopback addresses that no other cluster on this machine
// uses: whoever listens on its first address has it.
type block struct {
	id   int
	lock net.Listener
}

// maxNodes is how many nodes a block has room for.
const maxNodes = 99

// takeBlock returns a free block.
func takeBlock(ctx context.Context) (*block, error) {
	const tries = 50
	var errs []error
	for range tries {
		b := &block{id: rand.IntN(blocks)}
		var listen net.ListenConfig
		lock, err := listen.Listen(ctx, "tcp", net.JoinHostPort(b.addr(0)))
		if err == nil {
			b.lock = lock
			return b, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no free loopback addresses: %w", errors.Join(errs[tries-1], ctx.Err()))
}

// release gives the block back, whose servers must be gone.
func (b *block) release() error { return b.lock.Close() }
