package handoff

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// markName is the environment variable by which the processes of a check are
// found again, wherever they moved. A prctl parent-death signal would follow
// the thread that forked, which Go may end at any time.
const markName = "PERDURE_CHECK"

// endAll kills the group and every process that carries the mark, until none
// is left, and says how many it found. A fork bomb is bounded by the rounds.
func endAll(group int, mark string) int {
	found := map[int]bool{}
	for range 50 {
		// Looked for before the group is killed, or its own would go uncounted.
		pids := marked(mark)
		// ESRCH: the group is empty.
		groupGone := syscall.Kill(-group, syscall.SIGKILL) != nil
		for _, pid := range pids {
			found[pid] = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) == 0 && groupGone {
			break
		}
		// A killed process needs a moment to go; there is nothing to wait on,
		// because it isn't our child.
		time.Sleep(5 * time.Millisecond)
	}
	return len(found)
}

// marked lists live processes whose environment has the mark, but for zombies, which
// have none. Those of other users can't be read, and aren't ours.
func marked(mark string) []int {
	want := []byte(markName + "=" + mark)
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", name, "environ"))
		if err != nil || !hasVar(env, want) {
			continue
		}
		pids = append(pids, pid)
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
