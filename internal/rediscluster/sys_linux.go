package rediscluster

import "syscall"

// sysProcAttr makes a server end with this program, and keeps a terminal's
// interrupt from it, so that Close finds it where it was.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
