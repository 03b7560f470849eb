package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"perdure/server/store"
	"perdure/workspace"
)

// definitionFlags are the flags of new and set.
type definitionFlags struct {
	dir, worktree, goal, results, onMismatch, restart, base string
	owns, shares, questions, checks, untested, flaky, quick []string
	timeout, interval                                       time.Duration
}

func (f *definitionFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.dir, "dir", "", "the workspace's directory (default: the current one)")
	fs.StringVar(&f.goal, "goal", "", "what this slice of work is for")
	fs.StringArrayVar(&f.owns, "owns", nil, "paths that only this workspace edits (a glob; may be repeated)")
	fs.StringArrayVar(&f.shares, "shares", nil, "paths that anyone may edit (a glob)")
	fs.StringArrayVar(&f.questions, "question", nil, "an open question")
	fs.StringArrayVar(&f.checks, "check", nil, "[LABEL=]CMD: a command that shows whether the work is right")
	fs.StringArrayVar(&f.quick, "quick", nil, "the label of a check that is quick")
	fs.StringVar(&f.results, "results", "", "where results come from: auto, go, go-json, junit:GLOB or exit")
	fs.DurationVar(&f.timeout, "check-timeout", 0, "how long a check may run (default 10m)")
	fs.StringArrayVar(&f.untested, "untested", nil, "paths that no check is expected to cover (a glob)")
	fs.StringArrayVar(&f.flaky, "flaky", nil, "a test known to be flaky")
	fs.StringVar(&f.onMismatch, "on-mismatch", "", "who repairs: agent, shell or hold")
	fs.StringVar(&f.restart, "restart", "", "after a reboot: boot (the default) or never")
	fs.DurationVar(&f.interval, "interval", 0, "how often a changed tree is snapshotted while a session is live (default 30s)")
}

func (c *call) newCommand() *cobra.Command {
	var f definitionFlags
	cmd := &cobra.Command{Use: "new NAME [flags] [-- CMD ARG…]", Short: "create a workspace"}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&f.worktree, "worktree", "", "make a linked git worktree of this branch for it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.who.mustBePerson("create workspaces"); err != nil {
			return err
		}
		names, command, err := splitCommand(cmd, args)
		if err != nil {
			return err
		}
		if len(names) != 1 {
			return usage("`perdure new NAME [flags] [-- CMD ARG…]`", "new takes one name, and a command after --")
		}
		return c.create(cmd.Context(), names[0], command, &f, cmd.Flags())
	}
	return cmd
}

// splitCommand tells names from the command after --.
func splitCommand(cmd *cobra.Command, args []string) (names, command []string, err error) {
	n := cmd.ArgsLenAtDash()
	if n < 0 {
		return args, nil, nil
	}
	if n == len(args) {
		return nil, nil, usage("", "nothing follows --")
	}
	return args[:n], args[n:], nil
}

func (c *call) create(ctx context.Context, name string, command []string, f *definitionFlags, set *pflag.FlagSet) error {
	if err := workspace.ValidName(name); err != nil {
		return usage("names are lower-case letters, digits, '.', '_' and '-', 63 at the most", "%w", err)
	}
	if _, err := c.s.store.Workspace(name); err == nil {
		return refused(fmt.Sprintf("`perdure set %s …` changes it", name), "there is a workspace %s already", name)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	d := workspace.Definition{Name: name, Command: command, Created: time.Now().UTC(), Path: c.callerPath(), Restart: "boot"}
	var err error
	if d.Dir, err = c.directory(f); err != nil {
		return err
	}
	if err := f.apply(&d, set); err != nil {
		return err
	}
	if err := c.s.overlaps(d); err != nil {
		return err
	}
	if f.worktree != "" {
		if err := c.makeWorktree(ctx, d.Dir, f.worktree); err != nil {
			return err
		}
	}
	if err := c.s.firstSnapshot(ctx, &d); err != nil {
		return err
	}
	c.s.space(name)
	c.s.event(name, "created", map[string]any{"dir": d.Dir, "by": c.who.name})
	if !c.json && len(d.Checks) == 0 {
		if hint := checkHint(d.Dir); hint != "" {
			fmt.Fprintf(c.errOut, "hint: no check yet: `perdure set %s --check '%s'`\n", name, hint)
		}
	}
	if c.json {
		return c.printWorkspace(ctx, d)
	}
	_, err = fmt.Fprintf(c.out, "created %s in %s\n", name, escapeLine(d.Dir))
	return err
}

// callerPath is the PATH that checks and commands run with: the caller's, where the door brought it.
func (c *call) callerPath() string {
	if p := c.r.Env["PERDURE_PATH"]; p != "" && c.r.Local {
		return p
	}
	return os.Getenv("PATH")
}

// firstSnapshot captures the tree that the goal starts from, and keeps the definition with its base.
func (s *Server) firstSnapshot(ctx context.Context, d *workspace.Definition) error {
	state, err := s.snaps.Read(ctx, d.Name, d.Dir)
	if err != nil {
		return fmt.Errorf("read the tree of %s: %w", d.Dir, err)
	}
	if d.Base == "" {
		d.Base = state.Head
	}
	d.Repo = state.Repo
	if err := s.saveDefinition(ctx, *d); err != nil {
		return err
	}
	_, err = s.capture(ctx, d.Name, "manual", "created")
	return err
}

// directory is the checked directory of a new workspace.
func (c *call) directory(f *definitionFlags) (string, error) {
	dir := c.path(f.dir)
	if f.worktree != "" {
		if f.dir == "" {
			dir = c.path("") + "-" + strings.ReplaceAll(f.worktree, "/", "-")
		}
		if _, err := os.Lstat(dir); err == nil {
			return "", refused("name another with --dir", "%s exists already", dir)
		}
		return dir, nil
	}
	return c.s.checkDirectory(dir)
}

func (s *Server) checkDirectory(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", usage("make it first, or name another with --dir", "the directory %s: %w", escapeLine(dir), errors.Unwrap(err))
	}
	if !isDir(real) {
		return "", usage("name a directory with --dir", "%s is not a directory", escapeLine(dir))
	}
	home, _ := os.UserHomeDir()
	state, _ := filepath.EvalSymlinks(s.opts.State)
	switch {
	case real == "/" || real == home:
		return "", refused("name a folder for the work with --dir", "%s is too much for one workspace", real)
	case within(state, real) || within(real, state):
		return "", refused("name a folder outside it with --dir", "%s holds perdure's own state", real)
	}
	return real, nil
}

// within says whether path is dir or lies below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func (c *call) makeWorktree(ctx context.Context, dir, branch string) error {
	repo := c.path("")
	args := []string{"-C", repo, "worktree", "add"}
	if exec.CommandContext(ctx, "git", "-C", repo, "rev-parse", "--verify", "-q", "refs/heads/"+branch).Run() == nil {
		args = append(args, "--", dir, branch)
	} else {
		args = append(args, "-b", branch, "--", dir)
	}
	if out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("make the worktree: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

var labelled = regexp.MustCompile(`^([a-z][a-z0-9-]*)=(.+)$`)

// apply sets what the flags say, and checks it.
func (f *definitionFlags) apply(d *workspace.Definition, set *pflag.FlagSet) error {
	for _, s := range []struct {
		flag string
		from []string
		to   *[]string
		glob bool
	}{{"owns", f.owns, &d.Owns, true}, {"shares", f.shares, &d.Shares, true}, {"untested", f.untested, &d.Untested, true}, {"question", f.questions, &d.Questions, false}, {"flaky", f.flaky, &d.Flaky, false}} {
		if !set.Changed(s.flag) {
			continue
		}
		for _, g := range s.from {
			if s.glob && (g == "" || !doublestar.ValidatePattern(g) || !filepath.IsLocal(g)) {
				return usage("globs are relative to the workspace's directory, as internal/config/**", "--%s %q is no such glob", s.flag, g)
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
			return usage("", "--quick %q names no check", q)
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
	if f.timeout < 0 || f.interval < 0 || (f.interval > 0 && f.interval < time.Second) {
		return usage("durations are as 90s or 10m; the interval is a second at the least", "that is no duration to wait for")
	}
	for flag, v := range map[string]struct{ from, to *string }{"goal": {&f.goal, &d.Goal}, "results": {&f.results, &d.Results}, "on-mismatch": {&f.onMismatch, &d.OnMismatch}, "restart": {&f.restart, &d.Restart}} {
		if set.Changed(flag) {
			*v.to = *v.from
		}
	}
	if set.Changed("check-timeout") {
		d.CheckTimeout = f.timeout
	}
	if set.Changed("interval") {
		d.Interval = f.interval
	}
	return nil
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
			return nil, usage("", "a check is empty")
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
			return refused("narrow --owns, or name common files with --shares", "--owns overlaps what %s owns: both would own %s", o.Name, escapeLine(file))
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

func (c *call) setCommand() *cobra.Command {
	var f definitionFlags
	cmd := &cobra.Command{Use: "set NAME [flags] [-- CMD ARG…]", Short: "change a workspace"}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&f.base, "base", "", "the commit from which edited files count")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.who.mustBePerson("change a workspace"); err != nil {
			return err
		}
		names, command, err := splitCommand(cmd, args)
		if err != nil {
			return err
		}
		if err := upToOne(names); err != nil {
			return err
		}
		d, err := c.workspace(names)
		if err != nil {
			return err
		}
		return c.change(cmd.Context(), d, command, &f, cmd.Flags())
	}
	return cmd
}

func (c *call) change(ctx context.Context, d workspace.Definition, command []string, f *definitionFlags, set *pflag.FlagSet) error {
	if command != nil {
		d.Command = command
	}
	if set.Changed("dir") {
		dir, err := c.s.checkDirectory(c.path(f.dir))
		if err != nil {
			return err
		}
		d.Dir = dir
	}
	if err := f.apply(&d, set); err != nil {
		return err
	}
	if f.base != "" {
		out, err := exec.CommandContext(ctx, "git", "-C", d.Dir, "rev-parse", "--verify", "-q", "--end-of-options", f.base+"^{commit}").Output()
		if err != nil {
			return missing("", "no commit %s in %s", quoteName(f.base), d.Dir)
		}
		d.Base = strings.TrimSpace(string(out))
	}
	if err := c.s.overlaps(d); err != nil {
		return err
	}
	d.Path = c.callerPath()
	if err := c.s.saveDefinition(ctx, d); err != nil {
		return err
	}
	if c.json {
		return c.printWorkspace(ctx, d)
	}
	_, err := fmt.Fprintf(c.out, "changed %s\n", d.Name)
	return err
}

func (c *call) rmCommand() *cobra.Command {
	var purge bool
	cmd := &cobra.Command{Use: "rm NAME [--purge]", Short: "remove a workspace; its directory stays"}
	cmd.Flags().BoolVar(&purge, "purge", false, "delete its snapshots and handoffs too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.who.mustBePerson("remove a workspace"); err != nil {
			return err
		}
		if len(args) != 1 {
			return usage("`perdure rm NAME`", "rm takes one name")
		}
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		return c.remove(cmd.Context(), d, purge)
	}
	return cmd
}

// remove ends the session after a snapshot, and forgets the workspace. The directory is the person's.
func (c *call) remove(ctx context.Context, d workspace.Definition, purge bool) error {
	if isDir(d.Dir) && !purge {
		if _, _, err := c.s.captureIfChanged(ctx, d.Name, "manual"); err != nil {
			return err
		}
	}
	if err := c.s.stopSession(ctx, d.Name, "HUP"); err != nil {
		return err
	}
	c.s.mu.Lock()
	delete(c.s.spaces, d.Name)
	c.s.mu.Unlock()
	if err := c.s.snaps.Put(ctx, d.Name, kindDefinition, "current", nil); err != nil {
		return fmt.Errorf("keep the removal: %w", err)
	}
	c.s.event(d.Name, "removed", map[string]any{"by": c.who.name, "purged": purge})
	if err := c.s.forget(ctx, d.Name, purge); err != nil {
		return err
	}
	if err := os.RemoveAll(c.s.workspaceDir(d.Name)); err != nil {
		return fmt.Errorf("remove the session folders: %w", err)
	}
	if c.json {
		return c.print(map[string]any{"removed": d.Name, "purged": purge})
	}
	_, err := fmt.Fprintf(c.out, "removed %s; %s is untouched\n", d.Name, escapeLine(d.Dir))
	return err
}

func (s *Server) forget(ctx context.Context, name string, purge bool) error {
	if err := s.store.DeleteWorkspace(name); err != nil {
		return err
	}
	if err := s.store.DeleteHalt(name); err != nil {
		return err
	}
	if !purge {
		return nil
	}
	if err := s.snaps.Remove(ctx, name); err != nil {
		return fmt.Errorf("delete the snapshots: %w", err)
	}
	if err := s.snaps.Forget(ctx, name); err != nil {
		return fmt.Errorf("delete the ledger: %w", err)
	}
	return s.store.PurgeWorkspace(name)
}
