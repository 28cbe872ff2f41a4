package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/shardlimit/shardlimit/internal/deadman"
)

// rejoin takes back what cutOff did.
const rejoin = `iptables -w -D INPUT -s "$1" -j DROP; iptables -w -D INPUT -d "$1" -j DROP`

// cutOff drops what comes from the address and what goes to it, until the
// switch is released or this program ends.
func cutOff(ctx context.Context, host string) (*deadman.Switch, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it takes root", ErrCannotCut)
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotCut, err)
	}
	undo, err := deadman.Arm(ctx, rejoin, host)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(drop(ctx, "-s", host), drop(ctx, "-d", host)); err != nil {
		_ = undo.Release() // what was not done can't be undone
		return nil, fmt.Errorf("%w: %w", ErrCannotCut, err)
	}
	return undo, nil
}

func drop(ctx context.Context, end, host string) error {
	out, err := exec.CommandContext(ctx, "iptables", "-w", "-I", "INPUT", end, host, "-j", "DROP").CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return nil
}
