package handoff

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sampleEvery is how often a check is held against its limits, sampleSlow how seldom on a machine with so many
	// processes that looking takes long: it may take a twentieth of a core.
	sampleEvery, sampleSlow, sampleShare = 100 * time.Millisecond, time.Second, 20
	// killEvery is between two rounds of killing.
	killEvery = 5 * time.Millisecond
	// stuckTime is how long a killed process may take to go. One that waits for a dead disk, or is another user's, never does.
	stuckTime = 20 * time.Second
	// likelyVictim is the oom_score_adj (proc_pid_oom_score_adj(5)) of checks: the kernel ends them before the server.
	likelyVictim = "500"
)

// supervisor is the process that a check runs below. It is the parent of whatever the check starts and abandons (a child
// subreaper, prctl(2)), so that nothing gets out of its sight: not by another session or group, nor by an empty environment.
type supervisor struct {
	job       job
	report    *os.File
	orders    chan byte
	children  chan os.Signal
	cage      *cage
	pid       int  // of the check's command
	over      bool // that has ended
	childless bool
	end       ending
}

// Supervise is the process that runs one check for a Runner, whose job it reads from file 3 and to whom it tells the
// ending on file 4; the check's output goes to its own. It ends everything that the check started when the check's
// command has ended, at its limits, when it is told to, and when the Runner's process has died. The exit status is 0 if it
// could tell the ending.
func Supervise() int {
	in, report := os.NewFile(3, "orders"), os.NewFile(4, "report")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	s := &supervisor{report: report, orders: make(chan byte, 1), children: make(chan os.Signal, 1)}
	// Caught rather than ignored, since what is ignored is inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	signal.Notify(s.children, syscall.SIGCHLD)
	from := bufio.NewReader(in)
	line, err := from.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.job)
	}
	if err != nil {
		return 1
	}
	go s.listen(from)
	defer func() {
		for _, dir := range s.job.Remove {
			_ = os.RemoveAll(dir)
		}
	}()
	if err := s.start(); err != nil {
		s.end = ending{Failed: err.Error(), Exit: -1}
	} else {
		s.watch()
		s.endAll()
	}
	s.cage.remove()
	if json.NewEncoder(s.report).Encode(s.end) != nil {
		return 1 // nobody is there to be told
	}
	return 0
}

func (s *supervisor) listen(from *bufio.Reader) {
	for {
		order, err := from.ReadByte()
		if err != nil {
			order = orderEnd
		}
		s.orders <- order
		if err != nil {
			return
		}
	}
}

// start runs the check's command in a session of its own, and lets go of its output.
func (s *supervisor) start() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("limit core dumps: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Dir: s.job.Dir, Env: s.job.Env, Files: []uintptr{null.Fd(), 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}}
	if s.cage, err = newCage(s.job.Mark, s.job.Limits); err == nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(s.cage.dir.Fd())
	}
	// syscall rather than os: all children are waited for in one place, by wait4 for any of them. What the check
	// inherits is set for this process, and then set back; to a lower score only as it was is allowed.
	was := swapScore(likelyVictim)
	s.pid, err = syscall.ForkExec(s.job.Argv[0], s.job.Argv, attr)
	if err != nil && attr.Sys.UseCgroupFD {
		attr.Sys.UseCgroupFD = false // a kernel or a cgroup that takes no process this way
		s.pid, err = syscall.ForkExec(s.job.Argv[0], s.job.Argv, attr)
	}
	swapScore(was)
	if err != nil {
		return err
	}
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			s.endAll()
			return err
		}
	}
	return nil
}

// swapScore sets this process's oom_score_adj and gives the one before.
func swapScore(to string) string {
	const file = "/proc/self/oom_score_adj"
	was, err := os.ReadFile(file)
	if err == nil {
		_ = os.WriteFile(file, []byte(to), 0)
	}
	return string(was)
}

// watch returns when the command has ended or everything has to.
func (s *supervisor) watch() {
	sample := time.NewTimer(sampleEvery)
	defer sample.Stop()
	for {
		if s.reap(); s.over {
			tree := below(processes(), os.Getpid())
			s.end.Left = alive(tree)
			s.kernelLimit()
			return
		}
		select {
		case <-s.children:
		case order := <-s.orders:
			if order == orderEnd {
				return
			}
			_ = syscall.Kill(-s.pid, syscall.SIGTERM)
		case <-sample.C:
			began := time.Now()
			if s.exceeded() {
				return
			}
			sample.Reset(min(max(sampleEvery, sampleShare*time.Since(began)), sampleSlow))
		}
	}
}

// exceeded holds the check against its limits.
func (s *supervisor) exceeded() bool {
	tree := below(processes(), os.Getpid())
	resident := int64(0)
	for _, p := range tree {
		resident += p.resident
	}
	l := s.job.Limits
	switch {
	case l.Processes > 0 && len(tree) > l.Processes:
		s.end.Limit, s.end.Found = ProblemProcesses, strconv.Itoa(len(tree))+" processes"
	case l.Memory > 0 && resident > l.Memory:
		if taken := memoryOf(tree); taken > l.Memory {
			s.end.Limit, s.end.Found = ProblemMemory, strconv.FormatInt(taken>>20, 10)+" MiB of memory"
		}
	}
	s.kernelLimit()
	return s.end.Limit != ""
}

// kernelLimit takes over what the kernel held the check to: a fork or an allocation that was refused is the limit's doing.
func (s *supervisor) kernelLimit() {
	if limit := s.cage.exceeded(); limit != "" && s.end.Limit == "" {
		s.end.Limit, s.end.Found = limit, "more than it was given"
	}
}

// endAll kills whatever is left, until this process has no child. Since what is orphaned becomes its child, nothing is
// left then.
func (s *supervisor) endAll() {
	last := time.Now().Add(stuckTime)
	for s.reap(); !s.childless; s.reap() {
		tree := below(processes(), os.Getpid())
		if time.Now().After(last) {
			s.end.Stuck = alive(tree)
			return
		}
		s.cage.kill()
		killTree(tree)
		select {
		case <-s.children:
		case <-time.After(killEvery):
		}
	}
}

// reap takes in all children that have ended, and with the command its status.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			s.childless = true // ECHILD
			return
		case pid == 0:
			return
		case pid == s.pid:
			s.over = true
			s.end.Exit = status.ExitStatus()
			if status.Signaled() {
				s.end.Exit = 128 + int(status.Signal())
			}
		}
	}
}
