package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// ErrCannotCut says that nodes can't be cut off from the network here. For
// processes it takes Linux, root and iptables. It is an [errors.ErrUnsupported].
var ErrCannotCut = fmt.Errorf("processes can't be cut off from the network here: %w", errors.ErrUnsupported)

func (p *process) Cut(ctx context.Context) error {
	if err := p.Exited(ctx); err != nil {
		return err
	}
	if p.rejoin != nil {
		return nil
	}
	host, _, err := net.SplitHostPort(p.address)
	if err != nil {
		return err
	}
	p.rejoin, err = cutOff(ctx, host)
	return err
}

func (p *process) Heal(context.Context) error {
	if p.rejoin == nil {
		return nil
	}
	rejoin := p.rejoin
	p.rejoin = nil
	return rejoin.Release()
}
