package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/shardlimit/shardlimit/internal/deadman"
)

// rejoin takes back what cutOff did: each argument is what one rule matches.
const rejoin = `for rule; do iptables -w -D INPUT $rule -j DROP; done`

// cutOff drops what comes from the address and what goes to it, on that side,
// until the switch is released or this program ends.
func cutOff(ctx context.Context, host string, from Side) (*deadman.Switch, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it takes root", ErrCannotCut)
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotCut, err)
	}
	in, out := matches(host, from)
	undo, err := deadman.Arm(ctx, rejoin, in, out)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(drop(ctx, in), drop(ctx, out)); err != nil {
		_ = undo.Release() // what was not done can't be undone
		return nil, fmt.Errorf("%w: %w", ErrCannotCut, err)
	}
	return undo, nil
}

// matches returns what rules match that drop what goes to host and what comes
// from it. The nodes of a cluster are told from others by their block of
// addresses; see block.addr.
func matches(host string, from Side) (in, out string) {
	peers := host[:strings.LastIndexByte(host, '.')] + ".0/24"
	in, out = "-d "+host, "-s "+host
	switch from {
	case Clients:
		return in + " ! -s " + peers, out + " ! -d " + peers
	case Peers:
		return in + " -s " + peers, out + " -d " + peers
	default:
		return in, out
	}
}

// drop drops what the rule matches.
func drop(ctx context.Context, match string) error {
	args := append(append([]string{"-w", "-I", "INPUT"}, strings.Fields(match)...), "-j", "DROP")
	out, err := exec.CommandContext(ctx, "iptables", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return nil
}
