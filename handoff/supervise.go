package handoff

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// supervisor waits for the end of the process that runs the check: it reads a word on a pipe that only that process
// holds. Without the word, the process was killed: then it ends the check's group, and every process that carries the
// check's mark. It is a shell, since it must live in a process of its own and be there wherever checks are.
const supervisor = `read -r word && [ "$word" = done ] && exit
n=0
while [ $n -lt 100 ]; do
	kill -9 -- "-$1" 2>/dev/null
	left=$(grep -lzsx "$2" /proc/[0-9]*/environ 2>/dev/null)
	[ -n "$left" ] || exit
	for p in $left; do p=${p#/proc/}; kill -9 "${p%%/*}" 2>/dev/null; done
	n=$((n+1))
done
`

// supervise starts the supervisor of a check's group; the function it returns sends it home.
func supervise(group int, mark string) func() {
	cmd := exec.Command("/bin/sh", "-c", supervisor, "perdure-supervisor", strconv.Itoa(group), markName+"="+mark)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return func() {}
	}
	if err := cmd.Start(); err != nil {
		return func() {} // the check still ends with us, but not if we are killed
	}
	return func() {
		_, _ = io.WriteString(in, "done\n")
		_ = in.Close()
		_ = cmd.Wait()
	}
}
