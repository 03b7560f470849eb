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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/workspace"
)

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
	if d.Dir, err = c.directory(f, set); err != nil {
		return err
	}
	if err := f.apply(&d, set); err != nil {
		return err
	}
	if err := c.takeAgent(&d, command, f, set); err != nil {
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
	_, err = fmt.Fprintf(c.out, "created %s in %s\n", name, handoff.Escape(d.Dir))
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
	if old, err := s.seal(ctx, d.Name); err != nil || old != (handoff.Seal{}) { // of a removed workspace of that name
		if err := s.putSeal(ctx, d.Name, handoff.Seal{}); err != nil {
			return err
		}
	}
	if err := s.saveDefinition(ctx, *d); err != nil {
		return err
	}
	if err := s.consentTo(ctx, *d, "person"); err != nil {
		return err
	}
	_, err = s.capture(ctx, d.Name, "manual", "created")
	return err
}

// directory is the checked directory of a new workspace.
func (c *call) directory(f *definitionFlags, set *pflag.FlagSet) (string, error) {
	if set.Changed("dir") && f.dir == "" {
		return "", usage("name a directory, or leave --dir out for the current one", "--dir is empty")
	}
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
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the path is said already
	}
	if err != nil {
		return "", usage("make it first, or name another with --dir", "the directory %s: %w", handoff.Escape(dir), err)
	}
	if !isDir(real) {
		return "", usage("name a directory with --dir", "%s is not a directory", handoff.Escape(dir))
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
	if command == nil && !anyChanged(set) {
		return usage("`perdure set --help` lists what can be", "nothing is to be changed")
	}
	if err := c.takeAgent(&d, command, f, set); err != nil {
		return err
	}
	if set.Changed("dir") {
		dir, err := c.directory(f, set)
		if err != nil {
			return err
		}
		state, err := c.s.snaps.Read(ctx, d.Name, dir)
		if err != nil {
			return fmt.Errorf("read the tree of %s: %w", dir, err)
		}
		d.Dir, d.Repo = dir, state.Repo
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
	if err := c.s.consentTo(ctx, d, c.who.name); err != nil {
		return err
	}
	if c.json {
		return c.printWorkspace(ctx, d)
	}
	_, err := fmt.Fprintf(c.out, "changed %s\n", d.Name)
	return err
}

// anyChanged tells whether a flag of the command itself was given: --json changes nothing of a workspace.
func anyChanged(set *pflag.FlagSet) (any bool) {
	set.Visit(func(f *pflag.Flag) { any = any || f.Name != "json" })
	return any
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
	removeAll(c.s.dropDir(d.Name))
	if err := os.RemoveAll(c.s.workspaceDir(d.Name)); err != nil {
		return fmt.Errorf("remove the session folders: %w", err)
	}
	if c.json {
		return c.print(map[string]any{"removed": d.Name, "purged": purge})
	}
	_, err := fmt.Fprintf(c.out, "removed %s; %s is untouched\n", d.Name, handoff.Escape(d.Dir))
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
