package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// anonymous is a process's anonymous memory in KiB: what is its own, without the pages of files that it maps (proc(5)).
func anonymous(pid int) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var kib int
		if rest, ok := strings.CutPrefix(sc.Text(), "Anonymous:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				return 0, fmt.Errorf("read smaps_rollup: %w", err)
			}
			return kib, nil
		}
	}
	return 0, fmt.Errorf("no Anonymous line in smaps_rollup of %d", pid)
}
