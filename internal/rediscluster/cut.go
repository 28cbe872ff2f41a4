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

// ErrOneSide says that what runs the node cuts it off from everybody or nobody:
// containers do. It is an [ErrCannotCut].
var ErrOneSide = fmt.Errorf("%w, from one side alone", ErrCannotCut)

// Side is those whom a node is cut off from.
type Side int

// The sides. Peers are the other nodes of the cluster, whose replication is cut
// with all else; clients are everybody else, this program too.
const (
	Everybody Side = iota
	Clients
	Peers
)

func (p *process) Cut(ctx context.Context, from Side) error {
	if err := p.Exited(ctx); err != nil {
		return err
	}
	if err := p.Heal(ctx); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(p.address)
	if err != nil {
		return err
	}
	p.rejoin, err = cutOff(ctx, host, from)
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
