package handoff

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// process is one process as /proc tells of it.
type process struct {
	pid, parent, group int
	dead               bool  // a zombie: it waits to be reaped
	resident           int64 // bytes, those that it shares with others included
}

// processes is every process of the machine that this one may see. What forks and ends meanwhile may be missing.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var all []process
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", name, "stat"))
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(stat); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). The name, in parentheses, may hold anything.
func parseStat(stat []byte) (process, bool) {
	head, _, ok := bytes.Cut(stat, []byte(" ("))
	end := bytes.LastIndexByte(stat, ')')
	if !ok || end < 0 {
		return process{}, false
	}
	f := bytes.Fields(stat[end+1:]) // from the third field on: the state
	if len(f) < 22 {
		return process{}, false
	}
	number := func(b []byte) int { n, _ := strconv.Atoi(string(b)); return n }
	return process{pid: number(head), parent: number(f[1]), group: number(f[2]), dead: f[0][0] == 'Z' || f[0][0] == 'X',
		resident: int64(number(f[21])) * int64(os.Getpagesize())}, true
}

// below gives the descendants of a process.
func below(all []process, ancestor int) []process {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	tree := children[ancestor]
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i].pid]...)
	}
	return tree
}

// alive counts those that aren't zombies.
func alive(tree []process) int {
	n := 0
	for _, p := range tree {
		if !p.dead {
			n++
		}
	}
	return n
}

// killTree kills groups first: the kernel kills a whole one at once, so that a fork bomb can't outrun it. Groups of the
// check hold nothing else, since it has a session of its own.
func killTree(tree []process) {
	own := syscall.Getpgrp()
	groups := map[int]bool{own: true}
	for _, p := range tree {
		if !groups[p.group] && p.group > 1 {
			groups[p.group] = true
			_ = syscall.Kill(-p.group, syscall.SIGKILL)
		}
	}
	for _, p := range tree {
		if !p.dead {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// memoryOf is what the processes take of the machine's memory, in bytes, what they share counted once among them. It costs
// about a millisecond a process; resident is cheap, and never less.
func memoryOf(tree []process) int64 {
	sum := int64(0)
	for _, p := range tree {
		pss, err := proportional(p.pid)
		if err != nil {
			pss = p.resident // another user's, or it has ended
		}
		sum += pss
	}
	return sum
}

func proportional(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
			return kib << 10, err
		}
	}
	return 0, os.ErrInvalid
}

// markName is the environment variable by which the processes of a check are found should its supervisor be killed.
const markName = "PERDURE_CHECK"

// endMarked kills what carries a mark, until nothing does. It is for the case only that a check killed its supervisor:
// what cleared its environment besides can't be told from anybody else's then.
func endMarked(mark string) {
	for range 50 {
		pids := marked(mark)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) == 0 {
			return
		}
		// A killed process needs a moment to go; there is nothing to wait on, because it isn't our child.
		time.Sleep(5 * time.Millisecond)
	}
}

// marked lists live processes whose environment has the mark. Those of other users can't be read, and aren't ours.
func marked(mark string) []int {
	want := []byte(markName + "=" + mark)
	var pids []int
	for _, p := range processes() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err == nil && p.pid != os.Getpid() && hasVar(env, want) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func hasVar(env, want []byte) bool {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, want) {
			return true
		}
	}
	return false
}
