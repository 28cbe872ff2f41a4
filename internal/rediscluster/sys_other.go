//go:build !linux

package rediscluster

import "syscall"

// sysProcAttr is of no use here: a server outlives a program that is killed.
func sysProcAttr() *syscall.SysProcAttr { return nil }
