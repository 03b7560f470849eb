package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// nowhere is a HOME that can't exist, so that no configuration is found there.
const nowhere = "/dev/null/none"

// isolation is given on the command line because the store's configuration
// reaches neither the user's repository nor nested ones, and has to win over both.
var isolation = []string{
	"--literal-pathspecs", "--no-replace-objects",
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
	"-c", "core.protectNTFS=false", "-c", "core.protectHFS=false",
	"-c", "core.attributesFile=/dev/null", "-c", "core.untrackedCache=false",
	"-c", "core.splitIndex=false", "-c", "core.alternateRefsCommand=",
	"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "safe.directory=*",
	"-c", "diff.ignoreSubmodules=all", "-c", "submodule.recurse=false",
	"-c", "commit.gpgSign=false", "-c", "protocol.allow=never",
	"-c", "core.ignoreStat=false", "-c", "core.trustctime=true", "-c", "core.checkStat=default",
	"-c", "core.fsync=all",
}

// git runs the system git on one repository, cut off from every configuration
// but that repository's own.
type git struct {
	dir   string // GIT_DIR; "" lets git discover it from cwd
	work  string // GIT_WORK_TREE
	index string // GIT_INDEX_FILE
	cwd   string
	// excludes replaces core.excludesFile, where set.
	excludes string
	// batch makes one flush for many objects, for adding whole trees.
	batch bool
	// magic takes pathspecs as patterns: needed for exclusions.
	magic bool
}

func (g git) command(ctx context.Context, args ...string) *exec.Cmd {
	method := "fsync"
	if g.batch {
		method = "batch"
	}
	excludes := g.excludes
	if excludes == "" {
		excludes = "/dev/null"
	}
	base := isolation
	if g.magic {
		base = isolation[1:]
	}
	full := append([]string{}, base...)
	full = append(full, "-c", "core.fsyncMethod="+method, "-c", "core.excludesFile="+excludes)
	cmd := exec.CommandContext(ctx, "git", append(full, args...)...)
	cmd.Dir = g.cwd
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Env = g.environ()
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// environ is built from nothing: an inherited GIT_DIR, or any other variable
// that steers git, must have no effect.
func (g git) environ() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC",
		"HOME=" + nowhere, "XDG_CONFIG_HOME=" + nowhere,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
		// A partial clone must not fetch what it lacks while we look at it.
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1",
		"GIT_AUTHOR_NAME=perdure", "GIT_AUTHOR_EMAIL=perdure@localhost",
		"GIT_COMMITTER_NAME=perdure", "GIT_COMMITTER_EMAIL=perdure@localhost",
	}
	if g.dir != "" {
		env = append(env, "GIT_DIR="+g.dir)
	}
	if g.work != "" {
		env = append(env, "GIT_WORK_TREE="+g.work)
	}
	if g.index != "" {
		env = append(env, "GIT_INDEX_FILE="+g.index)
	}
	return env
}

// gitError is a git command that failed, with what it said.
type gitError struct {
	verb   string
	stderr string
	err    error
}

func (e *gitError) Error() string {
	said := strings.TrimSpace(e.stderr)
	if said == "" {
		return fmt.Sprintf("git %s: %v", e.verb, e.err)
	}
	if len(said) > 2000 {
		said = said[:2000]
	}
	return fmt.Sprintf("git %s: %v: %s", e.verb, e.err, said)
}

func (e *gitError) Unwrap() error { return e.err }

// run returns what the command printed.
func (g git) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := g.stream(ctx, bytes.NewReader(stdin), &out, args...)
	return out.Bytes(), err
}

// line returns what the command printed, without the newline at its end.
func (g git) line(ctx context.Context, stdin []byte, args ...string) (string, error) {
	out, err := g.run(ctx, stdin, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

func (g git) stream(ctx context.Context, stdin io.Reader, out io.Writer, args ...string) error {
	var stderr bytes.Buffer
	cmd := g.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, out, &stderr
	return wrapGit(ctx, args[0], stderr.String, cmd.Run())
}

func wrapGit(ctx context.Context, verb string, stderr func() string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return &gitError{verb: verb, stderr: stderr(), err: err}
}

// fields splits the NUL-terminated records of git's -z formats.
func fields(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// joined is the reverse: a NUL after every path.
func joined(paths []string) []byte {
	var b bytes.Buffer
	for _, p := range paths {
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.Bytes()
}
