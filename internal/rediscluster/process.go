package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/shardlimit/shardlimit/internal/deadman"
)

// processes is the launcher whose servers are processes of this machine.
type processes struct {
	command []string // starts a server, before its flags
	is      Version
	block   *block
	dir     string // one folder a node in it
	thread  *thread

	mu      sync.Mutex
	started []*process
}

func launchProcesses(ctx context.Context, opts Options) (_ Launcher, err error) {
	l := &processes{}
	if l.command, err = FindServer(opts.Server); err != nil {
		return nil, err
	}
	if l.is, err = askVersion(ctx, l.command); err != nil {
		return nil, err
	}
	if l.block, err = takeBlock(ctx); err != nil {
		return nil, err
	}
	if l.dir, err = os.MkdirTemp(scratch(), "rediscluster-"); err != nil {
		return nil, errors.Join(err, l.block.release())
	}
	l.thread = newThread()
	return l, nil
}

// scratch returns where the nodes keep their files: in memory where the system
// has a place for that, else where temporary files go. A node writes its
// configuration through to the disk for each slot that moves, and answers
// nobody meanwhile; on a busy disk that takes seconds.
func scratch() string {
	const memory = "/dev/shm"
	probe, err := os.MkdirTemp(memory, "rediscluster-")
	if err != nil || os.Remove(probe) != nil {
		return ""
	}
	return memory
}

func (l *processes) Version() Version { return l.is }

func (l *processes) Server(flags Flags) (Server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.started) + 1
	if n > maxNodes {
		return nil, fmt.Errorf("no more than %d nodes", maxNodes)
	}
	host, port := l.block.addr(n)
	p := &process{
		address: net.JoinHostPort(host, port),
		args:    append(slices.Clip(l.command), flags(l.is, host, port)...),
		dir:     filepath.Join(l.dir, strconv.Itoa(n)),
		thread:  l.thread,
	}
	l.started = append(l.started, p)
	return p, os.Mkdir(p.dir, 0o700)
}

func (l *processes) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thread.close() // nothing starts any more
	var errs []error
	for _, p := range l.started {
		errs = append(errs, p.end(context.Background()))
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir), l.block.release())...)
}

// process is one server as a process, or what is left of it between runs.
type process struct {
	address string
	args    []string
	dir     string
	thread  *thread
	rejoin  *deadman.Switch // nil while it's on the network

	mu  sync.Mutex
	run *run // the latest; nil before the first
}

// run is one life of a process.
type run struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed once the process was waited for
}

func (p *process) Addr() string { return p.address }

func (p *process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && !p.run.ended() {
		return fmt.Errorf("%s runs already", p.address)
	}
	out, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.args[0], p.args[1:]...) // it outlives this call
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, out, out, sysProcAttr()
	if err := p.thread.do(cmd.Start); err != nil {
		return errors.Join(err, out.Close())
	}
	p.run = &run{cmd: cmd, gone: make(chan struct{})}
	go p.run.wait()
	return out.Close()
}

func (r *run) wait() {
	_ = r.cmd.Wait() // how it ended is in cmd.ProcessState too
	close(r.gone)
}

func (r *run) ended() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

func (p *process) Exited(context.Context) error {
	r := p.latest()
	if r == nil {
		return fmt.Errorf("%s was never started", p.address)
	}
	if !r.ended() {
		return nil
	}
	return fmt.Errorf("%s ended (%v); its log: %s", p.address, r.cmd.ProcessState, p.logTail())
}

func (p *process) PID() int {
	if r := p.latest(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

func (p *process) Kill(ctx context.Context) error {
	r := p.latest()
	if r == nil {
		return nil
	}
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-r.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end leaves nothing of the process.
func (p *process) end(ctx context.Context) error {
	return errors.Join(p.Kill(ctx), p.Heal(ctx))
}

func (p *process) Hang(ctx context.Context) error   { return p.signal(ctx, stopProcess) }
func (p *process) Resume(ctx context.Context) error { return p.signal(ctx, continueProcess) }

func (p *process) signal(ctx context.Context, send func(*os.Process) error) error {
	if err := p.Exited(ctx); err != nil {
		return err
	}
	return send(p.latest().cmd.Process)
}

func (p *process) latest() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *process) logFile() string { return filepath.Join(p.dir, "log") }

// logTail returns the end of the server's log, where it says why it left.
func (p *process) logTail() string {
	const most = 1000 // bytes
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
