package handoff

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cage is a cgroup (version 2) that a check has to itself: the kernel keeps its processes together, and ends them at once.
// A nil one does nothing: most machines give no cgroup to an ordinary user.
type cage struct {
	path string
	dir  *os.File
}

// threadsEach is for how many threads a process counts where the kernel counts threads: the watch counts processes.
const threadsEach = 16

// newCage makes one below the cgroup of this process. The limits are the kernel's too where it has the controllers there.
func newCage(name string, l Limits) (*cage, error) {
	parent, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(parent, "perdure-check-"+name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	c := &cage{path: path, dir: dir}
	if l.Processes > 0 {
		c.put("pids.max", strconv.Itoa(l.Processes*threadsEach))
	}
	if l.Memory > 0 {
		c.put("memory.max", strconv.FormatInt(l.Memory, 10))
		c.put("memory.oom.group", "1")
	}
	return c, nil
}

// endCage ends what is left in a check's cgroup, and removes it, for a supervisor that was killed.
func endCage(name string) {
	parent, err := ownCgroup()
	if err != nil {
		return
	}
	c := &cage{path: filepath.Join(parent, "perdure-check-"+name)}
	for range 200 {
		c.kill()
		if err := os.Remove(c.path); err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return
		}
		time.Sleep(5 * time.Millisecond) // a killed process needs a moment to go, and isn't our child
	}
}

// put writes a file of the cgroup. One that isn't there is no fault: then that limit is only watched.
func (c *cage) put(name, text string) { _ = os.WriteFile(filepath.Join(c.path, name), []byte(text), 0) }

// exceeded says which limit the kernel held a check to, "" for none.
func (c *cage) exceeded() string {
	switch {
	case c == nil:
	case c.counter("pids.events", "max") > 0:
		return ProblemProcesses
	case c.counter("memory.events", "oom_kill") > 0:
		return ProblemMemory
	}
	return ""
}

func (c *cage) counter(file, name string) int64 {
	data, err := os.ReadFile(filepath.Join(c.path, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// kill ends every process within at once.
func (c *cage) kill() {
	if c != nil {
		c.put("cgroup.kill", "1")
	}
}

func (c *cage) remove() {
	if c != nil {
		c.dir.Close()
		_ = os.Remove(c.path)
	}
}

// Cgroup tells whether checks get a cgroup of their own here; the error says why not. It makes one and removes it.
func Cgroup() error {
	c, err := newCage("try-"+strconv.Itoa(os.Getpid()), Limits{})
	c.remove()
	return err
}

// ownCgroup is the folder of this process's cgroup, version 2.
func ownCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return findCgroup(mounts, own)
}

// findCgroup reads proc_pid_mountinfo(5) and proc_pid_cgroup(5).
func findCgroup(mounts, own []byte) (string, error) {
	within, found := "", false
	for line := range bytes.Lines(own) {
		if rest, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			within, found = string(bytes.TrimSpace(rest)), true
		}
	}
	if !found {
		return "", errors.New("this process is in no cgroup of version 2")
	}
	lines := bufio.NewScanner(bytes.NewReader(mounts))
	for lines.Scan() {
		head, tail, ok := strings.Cut(lines.Text(), " - ")
		f := strings.Fields(head)
		if !ok || len(f) < 5 || !strings.HasPrefix(tail, "cgroup2 ") {
			continue
		}
		rel, err := filepath.Rel(f[3], within)
		if err != nil || !filepath.IsLocal(rel) {
			continue // mounted from a part of the hierarchy that this process isn't in
		}
		return filepath.Join(f[4], rel), nil
	}
	return "", fmt.Errorf("no cgroup file system of version 2 shows %s", within)
}
