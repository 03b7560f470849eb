package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// demoGrace is how long the server and then its orphans get to end.
const demoGrace = 10 * time.Second

// endDescendants kills every process below this one and waits for it. As the subreaper this process is above all that
// it started, however they detached themselves; nothing else of it may be waiting for a child any more.
func endDescendants(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		pids, err := descendants(os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
		left, err := reap()
		if err != nil {
			return err
		}
		if !left {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes are left: %v", pids)
		}
		time.Sleep(5 * time.Millisecond) // a killed process takes a moment, and there is no event for a grandchild
	}
}

// reap collects children that have ended, and says whether there are others.
func reap() (left bool, err error) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("wait for the processes: %w", err)
		case pid == 0:
			return true, nil
		}
	}
}

// descendants are the processes below pid, children before their own.
func descendants(pid int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		child, parent := processOf(file)
		if child > 0 {
			children[parent] = append(children[parent], child)
		}
	}
	out := children[pid]
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out, nil
}

// processOf reads a /proc/PID/stat (proc(5)): the pid, and the parent after a name that may hold anything. A process
// that has ended is pid 0, also while its parent, which may be us, hasn't collected it.
func processOf(file string) (pid, parent int) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 2 || string(fields[0]) == "Z" {
		return 0, 0
	}
	if pid, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err != nil {
		return 0, 0
	}
	if parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return 0, 0
	}
	return pid, parent
}
