package server

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/spf13/pflag"

	"perdure/handoff"
	"perdure/handoff/results"
	"perdure/workspace"
)

// definitionFlags are the flags of new and set.
type definitionFlags struct {
	dir, worktree, goal, onMismatch, restart, base          string
	owns, shares, questions, checks, untested, flaky, quick []string
	include, link, checkEnv, resultsOf, timeouts, checkDirs []string
	needs, setup, agent                                     string
	interval                                                time.Duration
}

func (f *definitionFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.dir, "dir", "", "the workspace's directory (default: the current one)")
	fs.StringVar(&f.goal, "goal", "", "what this slice of work is for")
	fs.StringArrayVar(&f.owns, "owns", nil, "paths that only this workspace edits (a glob; may be repeated)")
	fs.StringArrayVar(&f.shares, "shares", nil, "paths that anyone may edit (a glob)")
	fs.StringArrayVar(&f.questions, "question", nil, "an open question")
	fs.StringArrayVar(&f.checks, "check", nil, "[LABEL=]CMD: a command that shows whether the work is right")
	fs.StringArrayVar(&f.quick, "quick", nil, "the label of a check that is quick")
	fs.StringArrayVar(&f.resultsOf, "results", nil, "[LABEL=]SPEC: where results come from: "+strings.Join(results.Specs(), ", "))
	fs.StringArrayVar(&f.timeouts, "check-timeout", nil, "[LABEL=]D: how long a check may run (default 10m)")
	fs.StringArrayVar(&f.checkDirs, "check-dir", nil, "LABEL=DIR: a folder in the directory that a check runs in")
	fs.StringArrayVar(&f.checkEnv, "check-env", nil, "an environment variable that checks get besides the usual ones")
	fs.StringVar(&f.needs, "needs", "", "a command that succeeds once the environment is ready: no check counts before")
	fs.StringVar(&f.setup, "setup", "", "a command that prepares a scratch checkout for the checks")
	fs.StringArrayVar(&f.link, "link", nil, "what a scratch checkout shares with the directory, as node_modules (a glob; may be repeated)")
	fs.StringVar(&f.agent, "agent", "", "the agent that works here: a preset, see `agent list`")
	fs.StringArrayVar(&f.untested, "untested", nil, "paths that no check is expected to cover (a glob)")
	fs.StringArrayVar(&f.flaky, "flaky", nil, "a test known to be flaky")
	fs.StringVar(&f.onMismatch, "on-mismatch", "", "who repairs: agent, shell or hold")
	fs.StringVar(&f.restart, "restart", "", "after a reboot: boot (the default) or never")
	fs.StringArrayVar(&f.include, "include", nil, "ignored files that snapshots keep all the same, as .env (a glob; may be repeated)")
	fs.DurationVar(&f.interval, "interval", 0, "how often a changed tree is snapshotted while a session is live (default 30s)")
}

var labelled = regexp.MustCompile(`^([a-z][a-z0-9-]*)=(.+)$`)

// apply sets what the flags say, and checks it.
func (f *definitionFlags) apply(d *workspace.Definition, set *pflag.FlagSet) error {
	for _, s := range []struct {
		flag string
		from []string
		to   *[]string
		glob bool
	}{{"owns", f.owns, &d.Owns, true}, {"shares", f.shares, &d.Shares, true}, {"untested", f.untested, &d.Untested, true}, {"include", f.include, &d.Include, true}, {"link", f.link, &d.Link, true}, {"check-env", f.checkEnv, &d.CheckEnv, false}, {"question", f.questions, &d.Questions, false}, {"flaky", f.flaky, &d.Flaky, false}} {
		if !set.Changed(s.flag) {
			continue
		}
		for _, g := range s.from {
			if s.glob && (g == "" || !doublestar.ValidatePattern(g) || !filepath.IsLocal(g)) {
				return usage("globs are relative to the workspace's directory, as internal/config/**", "--%s %q is no such glob", s.flag, g)
			}
			if strings.TrimSpace(g) == "" {
				return usage("", "--%s is empty", s.flag)
			}
		}
		*s.to = unique(s.from)
	}
	if set.Changed("check") {
		checks, err := parseChecks(f.checks)
		if err != nil {
			return err
		}
		d.Checks = checks
	}
	for _, q := range f.quick {
		if !markQuick(d.Checks, q) {
			return usage("it takes the label of a --check LABEL=CMD", "--quick %q names no check", q)
		}
	}
	return f.applyPlain(d, set)
}

func (f *definitionFlags) applyPlain(d *workspace.Definition, set *pflag.FlagSet) error {
	if f.onMismatch != "" && f.onMismatch != "agent" && f.onMismatch != "shell" && f.onMismatch != "hold" {
		return usage("", "--on-mismatch is agent, shell or hold, not %q", f.onMismatch)
	}
	if f.restart != "" && f.restart != "boot" && f.restart != "never" {
		return usage("", "--restart is boot or never, not %q", f.restart)
	}
	if err := f.applyPerCheck(d, set); err != nil {
		return err
	}
	if f.interval < 0 || (f.interval > 0 && f.interval < time.Second) {
		return usage("durations are as 90s or 10m; the interval is a second at the least", "that is no duration to wait for")
	}
	for flag, v := range map[string]struct{ from, to *string }{"goal": {&f.goal, &d.Goal}, "needs": {&f.needs, &d.Needs}, "setup": {&f.setup, &d.Setup}, "on-mismatch": {&f.onMismatch, &d.OnMismatch}, "restart": {&f.restart, &d.Restart}} {
		if set.Changed(flag) {
			*v.to = *v.from
		}
	}
	if set.Changed("interval") {
		d.Interval = f.interval
	}
	return nil
}

// validResults tells whether results can be read so.
func validResults(spec string) bool {
	if glob, ok := strings.CutPrefix(spec, "junit:"); ok {
		return glob != "" && doublestar.ValidatePattern(glob)
	}
	return results.ValidSpec(spec)
}

func parseChecks(list []string) ([]workspace.Check, error) {
	var out []workspace.Check
	seen := map[string]bool{}
	for i, v := range list {
		check := workspace.Check{Label: "check", Cmd: v}
		if i > 0 {
			check.Label = fmt.Sprintf("check%d", i+1)
		}
		if m := labelled.FindStringSubmatch(v); m != nil {
			check.Label, check.Cmd = m[1], m[2]
		}
		if strings.TrimSpace(check.Cmd) == "" {
			return nil, usage("a check is a command, as 'go test ./...'", "a check is empty")
		}
		if seen[check.Label] {
			return nil, usage("give each check a label of its own: LABEL=CMD", "two checks are called %q", check.Label)
		}
		seen[check.Label] = true
		out = append(out, check)
	}
	return out, nil
}

func markQuick(checks []workspace.Check, label string) bool {
	for i := range checks {
		if checks[i].Label == label {
			checks[i].Quick = true
			return true
		}
	}
	return false
}

// overlaps refuses paths that another workspace of the same directory owns.
func (s *Server) overlaps(d workspace.Definition) error {
	if len(d.Owns) == 0 {
		return nil
	}
	all, err := s.store.Workspaces()
	if err != nil {
		return err
	}
	var files []string
	for _, o := range all {
		if o.Name == d.Name || o.Dir != d.Dir || len(o.Owns) == 0 {
			continue
		}
		if files == nil {
			files = filesBelow(d.Dir)
		}
		if file, ok := workspace.Overlap(d.Owns, o.Owns, files); ok {
			return refused("narrow --owns, or name common files with --shares", "--owns overlaps what %s owns: both would own %s", o.Name, handoff.Escape(file))
		}
	}
	return nil
}

// maxWitnesses bounds how many files an overlap is looked for in.
const maxWitnesses = 50000

func filesBelow(dir string) []string {
	files := []string{}
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || len(files) >= maxWitnesses {
			return fs.SkipDir // what can't be read is nobody's witness
		}
		if e.IsDir() && e.Name() == ".git" {
			return fs.SkipDir
		}
		if rel, err := filepath.Rel(dir, p); err == nil && !e.IsDir() {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files
}

// checkHint is the usual test command of a folder.
func checkHint(dir string) string {
	for _, h := range []struct{ file, cmd string }{{"go.mod", "go test ./..."}, {"Cargo.toml", "cargo test"}, {"package.json", "npm test"}, {"pyproject.toml", "python -m pytest"}, {"setup.py", "python -m pytest"}, {"pom.xml", "mvn -q test"}, {"Makefile", "make test"}} {
		if _, err := os.Stat(filepath.Join(dir, h.file)); err == nil {
			return h.cmd
		}
	}
	return ""
}
