package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is an instance that was started.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   bytes.Buffer
	errs  bytes.Buffer
}

// Start runs this program again as an instance that does what o says. It ends by
// itself once its time is over, with this process, and when ctx ends.
func Start(ctx context.Context, o Order) (*Process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, os.Args[0])}
	p.cmd.Env = append(os.Environ(), environment+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.cmd.Wait() // it was killed
	return nil
}

// Wait waits until the process has done what it was told, and returns what it
// reports.
func (p *Process) Wait() (Report, error) {
	if err := p.cmd.Wait(); err != nil {
		return Report{}, fmt.Errorf("%w: %s", err, p.errs.Bytes())
	}
	var r Report
	return r, json.Unmarshal(p.out.Bytes(), &r)
}
