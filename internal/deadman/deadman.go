// Package deadman undoes what must not outlive this program, even where the
// program is killed: like the switch of that name, it acts once nobody holds it.
package deadman

import (
	"context"
	"errors"
	"io"
	"os/exec"
)

// Switch is a shell that waits for this program to end, in order to run a
// script then. One of Release and Disarm must be called, once.
type Switch struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// The shell reads from a pipe that this program alone can write to. The system
// closes it when the program ends, however that comes about. What ends a
// terminal's foreground programs is not for the shell, which has yet to work.
const wait = `trap '' HUP INT QUIT TERM; if read -r disarmed; then exit 0; fi; `

// Arm returns a switch that runs the script with these arguments, $1 and so on.
// ctx bounds this call alone. It fails where there is no POSIX shell.
func Arm(ctx context.Context, script string, args ...string) (*Switch, error) {
	words := append([]string{"-c", wait + script, "deadman"}, args...)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", words...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	return &Switch{cmd: cmd, stdin: stdin}, nil
}

// Release runs the script now and returns once it's done. A status other than
// 0 is an error.
func (s *Switch) Release() error {
	return errors.Join(s.stdin.Close(), s.cmd.Wait())
}

// Disarm ends the switch, whose script has nothing left to do.
func (s *Switch) Disarm() error {
	_, err := io.WriteString(s.stdin, "disarmed\n")
	return errors.Join(err, s.stdin.Close(), s.cmd.Wait())
}
