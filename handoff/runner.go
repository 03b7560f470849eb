package handoff

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"perdure/handoff/results"
)

const (
	defaultTimeout = 10 * time.Minute
	// outputLimit ends a check that prints without end.
	outputLimit = 64 << 20
	// tailSize is how much of its output a run keeps.
	tailSize = 4 << 10
	// graceTime is from TERM to KILL for a check at its limit.
	graceTime = 2 * time.Second
	// drainTime is how long a pipe may stay open after everything was ended.
	drainTime = 2 * time.Second
)

// CheckSpec is a check to run. Results is a spec of results.Parse; Timeout 0
// is ten minutes. Quick marks checks that every reattach may run.
type CheckSpec struct {
	Label, Cmd, Results string
	Dir                 string   // relative to the Runner's; "" is the same
	Env                 []string // names of variables it gets besides the usual ones
	Timeout             time.Duration
	Quick               bool
}

// Progress is told while a check runs.
type Progress struct {
	Label   string
	Elapsed time.Duration
	Tests   int    // ended so far, as far as the output tells
	Tail    string // the last line printed
}

// Runner runs checks in Dir by `sh -c`.
type Runner struct {
	Dir string
	// Path is the PATH of the checks; the process's own if empty.
	Path string
	// Env is their environment; nil takes the process's own, reduced to what
	// tools need. SSH_AUTH_SOCK, PERDURE_* and the like are always left out.
	Env []string
	// Where is put into CheckRun.Where; "tree" if empty.
	Where string
	// Trace follows which files of Dir a check opens. Edited names files that
	// are followed even in folders that hold dependencies.
	Trace  bool
	Edited []string
	// Content names the files that are the tree's; a check that opens another
	// may have opened what was built from them. Nil where it isn't known.
	Content map[string]bool
	// Progress, if set, is called now and then, from one goroutine.
	Progress func(Progress)
}

// run is one check on its way.
type run struct {
	*Runner
	dir     string // where it runs
	spec    CheckSpec
	mark    string // in the environment of every process of the check
	started time.Time
	before  map[string]fileStamp
	out     *capture
	shim    string
	result  CheckRun
}

// Run runs one check to its end. It never fails: what went wrong is Problem.
// When it returns, no process that the check started is left, not even one
// that made a session of its own, and the note says if there were such.
func (r *Runner) Run(ctx context.Context, spec CheckSpec) CheckRun {
	c := &run{Runner: r, dir: filepath.Join(r.Dir, spec.Dir), spec: spec, mark: newMark(), started: time.Now()}
	c.result = CheckRun{Label: spec.Label, Cmd: spec.Cmd, Cwd: filepath.Clean("./" + spec.Dir), Where: r.Where, Trace: "off", Exit: -1, Results: map[string]results.Outcome{}}
	if c.result.Where == "" {
		c.result.Where = "tree"
	}
	if glob, ok := strings.CutPrefix(spec.Results, "junit:"); ok {
		c.before = stamps(c.dir, glob)
	}
	if c.spec.Timeout <= 0 {
		c.spec.Timeout = defaultTimeout
	}
	c.out = newCapture(outputLimit)
	if err := c.execute(ctx); err != nil {
		c.problem(ProblemMissing, err.Error())
	}
	c.result.Ms = time.Since(c.started).Milliseconds()
	c.read()
	if r.Trace {
		c.look(ctx)
	}
	return c.result
}

func newMark() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// problem keeps the first: a later one follows from it.
func (c *run) problem(p, note string) {
	if c.result.Problem == "" {
		c.result.Problem = p
	}
	c.note(note)
}

func (c *run) note(n string) {
	if n == "" {
		return
	}
	if c.result.Note != "" {
		c.result.Note += "; "
	}
	c.result.Note += n
}

func (c *run) execute(ctx context.Context) error {
	pr, pw, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	defer pr.Close()
	path := c.search()
	c.shim = c.makeShim(path, pipeName(pw))
	if c.shim != "" {
		defer os.RemoveAll(c.shim)
		path = c.shim + ":" + path
	}
	cmd := exec.Command("/bin/sh", "-c", c.spec.Cmd)
	cmd.Dir = c.dir
	cmd.Env = append(c.environ(), "PATH="+path, "PWD="+c.dir, markName+"="+c.mark)
	cmd.Stdout, cmd.Stderr = pw, pw
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	defer c.watch()()
	err = cmd.Start()
	pw.Close()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer supervise(cmd.Process.Pid, c.mark)()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		c.out.drain(pr)
	}()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	c.wait(ctx, cmd, exited)
	// What escaped holds the pipe's other end; nobody may wait for it.
	if left := endAll(cmd.Process.Pid, c.mark); left > 0 && c.result.Problem == "" {
		c.note(fmt.Sprintf("%d processes that it left behind were ended", left))
	}
	_ = pr.SetReadDeadline(time.Now().Add(drainTime))
	<-drained
	return nil
}

// wait ends the check at its limits and takes its status.
func (c *run) wait(ctx context.Context, cmd *exec.Cmd, exited <-chan error) {
	limit := time.NewTimer(c.spec.Timeout)
	defer limit.Stop()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	full := c.out.full
	var kill <-chan time.Time
	stop := func(problem, note string) {
		c.problem(problem, note)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		kill = time.After(graceTime)
	}
	done := ctx.Done()
	for {
		select {
		case <-exited:
			c.status(cmd.ProcessState)
			c.tell()
			return
		case <-limit.C:
			stop(ProblemTimeout, fmt.Sprintf("ended after %s", c.spec.Timeout))
		case <-full:
			full = nil
			stop(ProblemOutput, fmt.Sprintf("ended after %d MiB of output", outputLimit>>20))
		case <-done:
			done = nil
			stop(ProblemCancelled, "")
		case <-kill:
			endAll(cmd.Process.Pid, c.mark)
		case <-tick.C:
			c.tell()
		}
	}
}

func (c *run) status(s *os.ProcessState) {
	c.result.Exit = s.ExitCode()
	ws, ok := s.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		c.result.Exit = 128 + int(ws.Signal())
	}
}

func (c *run) tell() {
	if c.Progress == nil {
		return
	}
	tests, line := c.out.progress()
	c.Progress(Progress{Label: c.spec.Label, Elapsed: time.Since(c.started), Tests: tests, Tail: Escape(line)})
}

// read takes the results out of what was printed and written.
func (c *run) read() {
	output := c.out.bytes()
	text := results.Text(output)
	c.diagnose(text)
	if c.result.Problem == "" {
		c.parse(output)
	}
	if c.result.Problem != "" || c.result.Exit != 0 || failed(c.result.Results) {
		c.result.Tail = tail(text)
	}
}

func (c *run) parse(output []byte) {
	files, err := c.resultFiles()
	if err != nil {
		c.problem(ProblemUnreadable, err.Error())
		return
	}
	set, err := results.Parse(c.spec.Results, output, files, c.result.Exit, c.spec.Label)
	c.result.Tool, c.result.Results = set.Tool, set.Tests
	c.note(set.Note)
	switch {
	case err != nil:
		c.problem(ProblemUnreadable, err.Error())
	case c.before != nil && len(files) == 0:
		c.problem(ProblemStale, "")
	case len(set.Tests) == 0:
		c.problem(ProblemNoTests, "")
	case len(set.Tests) == 1 && c.result.Exit == 0 && set.Tool == "exit" && saysNoTests(output):
		c.problem(ProblemNoTests, "")
	}
	if set.Tool == "go" {
		c.result.Tool = c.goVersion()
	}
}

func failed(set map[string]results.Outcome) bool {
	for _, o := range set {
		if o == results.Fail {
			return true
		}
	}
	return false
}

// goVersion is "go" where it can't be told: it is information only.
func (c *run) goVersion() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "exec go env GOVERSION")
	cmd.Dir, cmd.Env = c.dir, append(c.environ(), "PATH="+c.search())
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if version := strings.TrimSpace(string(out)); err == nil && strings.HasPrefix(version, "go") {
		return version
	}
	return "go"
}

func (c *run) search() string {
	if c.Path != "" {
		return c.Path
	}
	return os.Getenv("PATH")
}

// resultFiles reads the declared files that this run wrote.
func (c *run) resultFiles() (map[string][]byte, error) {
	glob, ok := strings.CutPrefix(c.spec.Results, "junit:")
	if !ok {
		return nil, nil
	}
	files := map[string][]byte{}
	for name, stamp := range stamps(c.dir, glob) {
		if old, ok := c.before[name]; ok && old == stamp {
			continue
		}
		if stamp.size > outputLimit {
			return nil, fmt.Errorf("%s is larger than %d MiB", name, outputLimit>>20)
		}
		data, err := os.ReadFile(filepath.Join(c.dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("result file: %w", err)
		}
		files[name] = data
	}
	return files, nil
}
