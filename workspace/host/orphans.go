package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// rounds bounds the hunt for descendants that fork as fast as they are killed.
const rounds = 20

// killDescendants ends every process below this one, those too that left the session: as a child subreaper this
// process inherits them.
func killDescendants() {
	for range rounds {
		pids := children(os.Getpid())
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			for _, p := range append(children(pid), pid) {
				_ = unix.Kill(p, unix.SIGKILL)
			}
		}
		for _, pid := range pids {
			// Reaps the orphans that became ours. The leader itself is exec.Cmd's to wait for, and is gone by now.
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
}

// children reads /proc for the processes whose parent is pid (proc(5)).
func children(pid int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var out []int
	for _, s := range stats {
		data, err := os.ReadFile(s)
		if err != nil {
			continue
		}
		i := bytes.LastIndexByte(data, ')')
		if i < 0 {
			continue
		}
		var state string
		var parent int
		if _, err := fmt.Sscan(string(data[i+1:]), &state, &parent); err != nil || parent != pid {
			continue
		}
		if p, err := strconv.Atoi(filepath.Base(filepath.Dir(s))); err == nil {
			out = append(out, p)
		}
	}
	return out
}
