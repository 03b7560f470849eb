package handoff

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	Printed             bool // "auto" takes what is printed, not the files that Cmd names
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
	// Supervisor is the command that calls Supervise: this very binary, started again with SuperviseCommand.
	Supervisor []string
	Limits     Limits
	// Where is put into CheckRun.Where; "tree" if empty.
	Where string
	// Trace follows which files of Dir a check opens. Edited names files that
	// are followed even in folders that hold dependencies.
	Trace  bool
	Edited []string
	// Content names the files that are the tree's; a check that opens another
	// may have opened what was built from them. Nil where it isn't known.
	Content map[string]bool
	// Key makes hashes of a check's inputs that nobody without it can compare with a guess; without one there are none.
	Key []byte
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
	argv    []string
	out     *capture
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
	c.before = c.resultStamps()
	c.result.How = spec.how()
	c.spec.Timeout = time.Duration(c.result.How.Timeout) * time.Millisecond
	c.out, c.argv = newCapture(outputLimit), []string{"/bin/sh", "-c", spec.Cmd}
	if err := c.execute(ctx); err != nil {
		c.problem(ProblemMissing, err.Error())
	}
	c.result.Ms = time.Since(c.started).Milliseconds()
	c.read(ctx)
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
	j := job{Argv: c.argv, Dir: c.dir, Mark: c.mark, Limits: c.Limits}
	if shim := c.makeShim(path, pipeName(pw)); shim != "" {
		defer os.RemoveAll(shim)
		j.Remove = []string{shim} // should this process be killed
		path = shim + ":" + path
	}
	j.Env = append(c.environ(), "PATH="+path, "PWD="+c.dir, markName+"="+c.mark)
	defer c.watch()()
	s, err := c.supervise(j, pw)
	pw.Close()
	if err != nil {
		return err
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		c.out.drain(pr)
	}()
	err = c.wait(ctx, s)
	// Should anything have the pipe's other end still: nobody may wait for it.
	_ = pr.SetReadDeadline(time.Now().Add(drainTime))
	<-drained
	return err
}

// wait has the check ended at its limits and takes its ending. The error says that it could not be started.
func (c *run) wait(ctx context.Context, s *supervised) error {
	limit := time.NewTimer(c.spec.Timeout)
	defer limit.Stop()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	full, done := c.out.full, ctx.Done()
	var kill, stuck <-chan time.Time
	stop := func(problem, note string) {
		c.problem(problem, note)
		s.order(orderTerm)
		kill = time.After(graceTime)
	}
	for {
		select {
		case e, ok := <-s.ended:
			c.tell()
			return c.take(e, ok)
		case <-limit.C:
			stop(ProblemTimeout, fmt.Sprintf("ended after %s", c.spec.Timeout))
		case <-full:
			full = nil
			stop(ProblemOutput, fmt.Sprintf("ended after %d MiB of output", outputLimit>>20))
		case <-done:
			done = nil
			stop(ProblemCancelled, "")
		case <-kill:
			s.order(orderEnd)
			stuck = time.After(2 * stuckTime)
		case <-stuck: // a check may have stopped its supervisor
			s.cmd.Process.Kill()
		case <-tick.C:
			c.tell()
		}
	}
}

// take reads the ending of a check; ok is false if its supervisor ended without telling one.
func (c *run) take(e ending, ok bool) error {
	if !ok {
		endCage(c.mark)
		endMarked(c.mark)
		c.problem(ProblemKilled, "its supervisor was killed")
		return nil
	}
	c.result.Exit = e.Exit
	if e.Stuck > 0 {
		c.note(fmt.Sprintf("%d processes of it could not be ended", e.Stuck))
	}
	switch {
	case e.Failed != "":
		return fmt.Errorf("start: %s", e.Failed)
	case e.Limit == ProblemProcesses:
		c.problem(e.Limit, fmt.Sprintf("ended with %s, at most %d are allowed", e.Found, c.Limits.Processes))
	case e.Limit == ProblemMemory:
		c.problem(e.Limit, fmt.Sprintf("ended with %s, at most %d MiB are allowed", e.Found, c.Limits.Memory>>20))
	case e.Left > 0 && c.result.Problem == "":
		c.note(fmt.Sprintf("%d processes that it left behind were ended", e.Left))
	}
	return nil
}

// ask runs a program in a folder as the check itself is run, within its limits and environment, and gives what it printed
// on its standard output. The error is any ending but success.
func (c *run) ask(ctx context.Context, dir string, timeout time.Duration, argv ...string) ([]byte, error) {
	plain := *c.Runner
	plain.Trace, plain.Progress = false, nil
	q := &run{Runner: &plain, dir: dir, spec: CheckSpec{Cmd: argv[0], Results: "exit", Env: c.spec.Env, Timeout: timeout}, mark: newMark(), started: time.Now(), out: newCapture(outputLimit)}
	q.argv = append([]string{"/bin/sh", "-c", `exec "$@" 2>/dev/null`, "sh"}, argv...)
	if err := q.execute(ctx); err != nil {
		return nil, err
	}
	if q.result.Problem != "" || q.result.Exit != 0 {
		return nil, fmt.Errorf("%s: status %d %s", strings.Join(argv[:min(2, len(argv))], " "), q.result.Exit, q.result.Problem)
	}
	return q.out.bytes(), nil
}

func (c *run) tell() {
	if c.Progress == nil {
		return
	}
	tests, line := c.out.progress()
	c.Progress(Progress{Label: c.spec.Label, Elapsed: time.Since(c.started), Tests: tests, Tail: Escape(line)})
}

// read takes the results out of what was printed and written.
func (c *run) read(ctx context.Context) {
	output, text := c.out.bytes(), results.Text(c.out.ending())
	c.status(text)
	if c.result.Problem == "" {
		c.parse(ctx, output)
		c.surroundings(output, text)
	}
	if c.result.Problem != "" || c.result.Exit != 0 || failed(c.result.Results) {
		c.result.Tail = tail(text)
	}
}

func (c *run) parse(ctx context.Context, output []byte) {
	files, err := c.resultFiles()
	if err != nil {
		c.problem(ProblemUnreadable, err.Error())
		return
	}
	set, err := c.parseResults(output, files)
	c.result.Tool, c.result.Results = set.Tool, set.Tests
	c.note(set.Note)
	switch {
	case err != nil:
		c.problem(ProblemUnreadable, err.Error())
	case c.stale(set, files):
		c.problem(ProblemStale, "")
	case len(set.Tests) == 0:
		c.problem(ProblemNoTests, "")
	case len(set.Tests) == 1 && c.result.Exit == 0 && set.Tool == "exit" && saysNoTests(output):
		c.problem(ProblemNoTests, "")
	}
	if set.Tool == "go" {
		c.result.Tool = c.goVersion(ctx)
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
func (c *run) goVersion(ctx context.Context) string {
	out, err := c.ask(ctx, c.dir, 5*time.Second, "go", "env", "GOVERSION")
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
