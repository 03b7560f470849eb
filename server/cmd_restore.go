package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

type restoreOptions struct {
	to    string
	only  []string
	force bool
}

const restoreLong = `restore brings a snapshot back. Without --to it goes to a new directory beside the workspace's: plain files,
with their modes and links, and no repository.

With --to naming the workspace's own directory it is brought back in place. What would be done is shown first, and a
snapshot of the present is taken before anything is written. Where files are newer than the snapshot it is refused
(status 4) unless --force is given. Files that no snapshot recorded, and ignored ones, are never deleted. Without --only the
index and a merge, rebase, cherry-pick, revert or bisect in progress come back too; no branch is moved, and no stash dropped.`

func (c *call) restoreCommand() *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{Use: "restore NAME SNAP [--to DIR] [--only PATH]… [--force]", Short: "bring a snapshot back, by default into a new directory", Long: restoreLong, Args: cobra.ExactArgs(2)}
	cmd.Flags().StringVar(&o.to, "to", "", "where to (default: a new directory beside the workspace's)")
	cmd.Flags().StringArrayVar(&o.only, "only", nil, "only this file or folder, relative to the workspace's directory (may be repeated)")
	cmd.Flags().BoolVar(&o.force, "force", false, "in place: also where files are newer than the snapshot")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if err := c.who.mayActFor(d.Name); err != nil {
			return err
		}
		if cmd.Flags().Changed("to") && o.to == "" {
			return usage("name a directory, or leave --to out for a new one", "--to is empty")
		}
		snap, err := c.resolve(d, args[1])
		if err != nil {
			return err
		}
		return c.restore(cmd.Context(), d, snap, o)
	}
	return cmd
}

// restore writes a snapshot's files, in place or into a directory that holds nothing.
func (c *call) restore(ctx context.Context, d workspace.Definition, snap snapshot.Snapshot, o restoreOptions) error {
	for i, p := range o.only {
		if filepath.IsAbs(p) {
			rel, err := filepath.Rel(d.Dir, p)
			if err != nil || !filepath.IsLocal(rel) {
				return usage("paths are relative to the workspace's directory", "--only %s is not in %s", quoteName(p), d.Dir)
			}
			o.only[i] = rel
		}
	}
	dest := d.Dir + ".restored-" + snap.ID
	if o.to != "" {
		dest = c.path(o.to)
	}
	entries, err := os.ReadDir(dest)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("restore to %s: %w", dest, err)
	}
	if sameDir(dest, d.Dir) {
		return c.restoreInPlace(ctx, d, snap, o)
	}
	if len(entries) > 0 {
		return refused("name a new directory with --to, or the workspace's own to restore in place", "%s holds files, and is not the workspace's directory", handoff.Escape(dest))
	}
	bar := c.bar("restoring")
	n, err := c.s.snaps.RestoreTo(ctx, snap, snapshot.RestoreOptions{Dest: dest, Only: o.only, Progress: bar.set})
	bar.done()
	if err != nil {
		return fmt.Errorf("restore %s to %s: %w", snap.ID, dest, err)
	}
	if c.json {
		return c.print(map[string]any{"snapshot": snap.ID, "to": dest, "files": n, "at": time.Now().UTC()})
	}
	_, err = fmt.Fprintf(c.out, "restored %d files of %s to %s\n", n, snap.ID, handoff.Escape(dest))
	return err
}

// sameDir tells whether two paths lead to one directory that exists.
func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func (c *call) restoreInPlace(ctx context.Context, d workspace.Definition, snap snapshot.Snapshot, o restoreOptions) error {
	if c.s.space(d.Name).live() != nil && c.who.inside != d.Name && !o.force {
		return refused("`perdure stop "+d.Name+"` first, add --force, or restore elsewhere with --to", "the session of %s works in %s", d.Name, d.Dir)
	}
	earlier, err := c.s.store.Snapshots(d.Name)
	if err != nil {
		return err
	}
	plan, err := c.s.snaps.PlanRestore(ctx, snap, snapshot.PlanRequest{Dir: d.Dir, Only: o.only, Include: d.Include, Earlier: earlier})
	if err != nil {
		return err
	}
	if !c.json {
		c.showPlan(plan)
	}
	if conflicts := plan.Conflicts(); len(conflicts) > 0 && !o.force {
		return refused("add --force: a snapshot of the present is taken first; or restore elsewhere with --to",
			"%d file(s) are newer than %s, among them %s", len(conflicts), snap.ID, handoff.Escape(conflicts[0].Path))
	}
	before, err := c.s.captureWith(ctx, d.Name, "restore", "before restoring "+snap.ID, plan.Unkept())
	if err != nil {
		return fmt.Errorf("nothing was written: the present could not be snapshotted: %w", err)
	}
	bar := c.bar("restoring")
	done, err := c.s.snaps.Apply(ctx, plan, bar.set)
	bar.done()
	if err == nil && len(o.only) == 0 {
		var notes []string
		notes, err = c.s.snaps.RestoreGit(ctx, snap, d.Dir)
		done.Notes = append(done.Notes, notes...)
	}
	for _, n := range done.Notes {
		if !c.json {
			fmt.Fprintf(c.errOut, "perdure: %s\n", handoff.Escape(n))
		}
	}
	if err != nil {
		return fmt.Errorf("restore %s in place, the present is %s: %w", snap.ID, before.ID, err)
	}
	if c.json {
		return c.print(map[string]any{"snapshot": snap.ID, "to": d.Dir, "files": done.Written, "deleted": done.Deleted, "before": before.ID,
			"plan": some(plan.Steps), "notes": some(done.Notes), "at": time.Now().UTC()})
	}
	_, err = fmt.Fprintf(c.out, "restored %s in place: %d written, %d deleted; what was there is %s\n", snap.ID, done.Written, done.Deleted, before.ID)
	return err
}

// shownSteps is how many lines of a plan a person is shown; --json has all.
const shownSteps = 200

func (c *call) showPlan(plan *snapshot.Plan) {
	fmt.Fprintf(c.out, "restore %s of %s in %s: %d change(s)\n", plan.Snapshot.ID, plan.Snapshot.At.Local().Format("2006-01-02 15:04:05"), handoff.Escape(plan.Dir), plan.Changes())
	// What takes something away comes first.
	steps := slices.Clone(plan.Steps)
	slices.SortStableFunc(steps, func(a, b snapshot.Step) int { return rank(a) - rank(b) })
	for i, s := range steps {
		if i == shownSteps {
			fmt.Fprintf(c.out, "  … and %d more\n", len(steps)-i)
			break
		}
		why := ""
		switch {
		case s.Action == snapshot.StepKeep:
			why = "  (no snapshot has it)"
		case s.Unkept:
			why = "  (ignored, or new: kept by the snapshot of the present)"
		case s.Newer:
			why = "  (newer than the snapshot)"
		}
		fmt.Fprintf(c.out, "  %-8s %s%s\n", s.Action, handoff.Escape(s.Path), why)
	}
}

func rank(s snapshot.Step) int {
	switch {
	case s.Action == snapshot.StepKeep:
		return 2
	case s.Newer || s.Unkept:
		return 0
	}
	return 1
}
