package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

// snapshotView is a snapshot as `snapshots --json` promises it: skipped is never null.
func snapshotView(s snapshot.Snapshot) snapshot.Snapshot {
	s.Skipped = some(s.Skipped)
	return s
}

func (c *call) snapshotCommand() *cobra.Command {
	var message string
	cmd := &cobra.Command{Use: "snapshot NAME [-m T]", Short: "take a snapshot now", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVarP(&message, "message", "m", "", "why")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.own(args)
		if err != nil {
			return err
		}
		snap, err := c.s.capture(cmd.Context(), d.Name, "manual", message)
		if err != nil {
			return err
		}
		if c.json {
			return c.print(snapshotView(snap))
		}
		if _, err := fmt.Fprintf(c.out, "%s  %d files\n", snap.ID, snap.Files); err != nil {
			return err
		}
		for _, k := range snap.Skipped {
			fmt.Fprintf(c.errOut, "perdure: left out: %s: %s\n", handoff.Escape(k.Path), k.Why)
		}
		return nil
	}
	return cmd
}

func (c *call) snapshotsCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{Use: "snapshots NAME [--path F]", Short: "list the snapshots, newest first", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&path, "path", "", "only those in which this file differs from the one before")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		list, err := c.s.store.Snapshots(d.Name)
		if err != nil {
			return err
		}
		if path != "" {
			if list, err = c.s.versions(cmd.Context(), list, path); err != nil {
				return err
			}
		}
		if c.json {
			out := make([]snapshot.Snapshot, 0, len(list))
			for _, s := range list {
				out = append(out, snapshotView(s))
			}
			return c.print(out)
		}
		t := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tAT\tREASON\tBRANCH\tFILES\tBEHIND\tMESSAGE")
		for _, s := range list {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", s.ID, s.At.Local().Format("2006-01-02 15:04:05"), s.Reason, handoff.Escape(s.Branch), s.Files, s.Behind, handoff.Escape(s.Message))
		}
		return t.Flush()
	}
	return cmd
}

// versions keeps the snapshots in which a file is not what it was in the one before.
func (s *Server) versions(ctx context.Context, list []snapshot.Snapshot, path string) ([]snapshot.Snapshot, error) {
	var out []snapshot.Snapshot
	for i, snap := range list {
		if i == len(list)-1 {
			if s.snaps.Cat(ctx, snap, path, discard{}) == nil {
				out = append(out, snap)
			}
			break
		}
		changes, err := s.snaps.Diff(ctx, snap.Repo, list[i+1].Tree, snap.Tree)
		if err != nil {
			return nil, fmt.Errorf("compare %s with %s: %w", list[i+1].ID, snap.ID, err)
		}
		if slices.ContainsFunc(changes, func(ch snapshot.Change) bool { return ch.Path == path }) {
			out = append(out, snap)
		}
	}
	return out, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// resolve finds a snapshot by id, prefix, latest, -N or @TIME.
func (c *call) resolve(d workspace.Definition, spec string) (snapshot.Snapshot, error) {
	list, err := c.s.store.Snapshots(d.Name)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	return snapshot.Resolve(list, spec)
}

// side is one side of a diff: a tree of a repository.
func (c *call) side(d workspace.Definition, spec string) (repo, tree string, err error) {
	if spec == "record" {
		r, _, err := c.s.inForce(d.Name)
		if err != nil {
			return "", "", err
		}
		if r == nil {
			return "", "", missing("record one with `perdure handoff record`", "%s has no record", d.Name)
		}
		return d.Repo, r.Measured.Tree, nil
	}
	snap, err := c.resolve(d, spec)
	return snap.Repo, snap.Tree, err
}

func (c *call) diffCommand() *cobra.Command {
	var names bool
	cmd := &cobra.Command{Use: "diff NAME [SNAP [SNAP]]", Short: "compare snapshots, the tree, and the record", DisableFlagParsing: false}
	cmd.Flags().BoolVar(&names, "name-only", false, "only the paths and what became of them")
	cmd.Args = cobra.RangeArgs(0, 3)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		specs := []string{"latest"}
		if len(args) > 1 {
			specs = args[1:]
		}
		repo, from, err := c.side(d, specs[0])
		if err != nil {
			return err
		}
		var to string
		if len(specs) > 1 {
			_, to, err = c.side(d, specs[1])
		} else {
			var now snapshot.State
			if now, err = c.s.snaps.Read(cmd.Context(), d.Name, d.Dir); err == nil {
				repo, to = now.Repo, now.Tree
			}
		}
		if err != nil {
			return err
		}
		return c.compare(cmd.Context(), repo, from, to, names)
	}
	return cmd
}

func (c *call) compare(ctx context.Context, repo, from, to string, names bool) error {
	if !names && !c.json {
		return c.s.snaps.Patch(ctx, repo, from, to, c.out)
	}
	changes, err := c.s.snaps.Diff(ctx, repo, from, to)
	if err != nil {
		return err
	}
	if c.json {
		out := []map[string]string{}
		for _, ch := range changes {
			out = append(out, map[string]string{"path": ch.Path, "kind": ch.Kind})
		}
		return c.print(out)
	}
	for _, ch := range changes {
		if _, err := fmt.Fprintf(c.out, "%-8s %s\n", ch.Kind, handoff.Escape(ch.Path)); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) catCommand() *cobra.Command {
	return &cobra.Command{Use: "cat NAME SNAP PATH", Short: "print a file of a snapshot", Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		snap, err := c.resolve(d, args[1])
		if err != nil {
			return err
		}
		return c.s.snaps.Cat(cmd.Context(), snap, args[2], c.r.Out)
	}}
}

type restoreOptions struct {
	to    string
	only  []string
	force bool
}

func (c *call) restoreCommand() *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{Use: "restore NAME SNAP [--to DIR] [--only PATH]… [--force]", Short: "bring a snapshot back, by default into a new directory", Args: cobra.ExactArgs(2)}
	cmd.Flags().StringVar(&o.to, "to", "", "where to (default: a new directory beside the workspace's)")
	cmd.Flags().StringArrayVar(&o.only, "only", nil, "only this path")
	cmd.Flags().BoolVar(&o.force, "force", false, "write into a directory that holds files; the present is snapshotted first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if err := c.who.mayActFor(d.Name); err != nil {
			return err
		}
		snap, err := c.resolve(d, args[1])
		if err != nil {
			return err
		}
		return c.restore(cmd.Context(), d, snap, o)
	}
	return cmd
}

// restore writes a snapshot's files. Into the workspace itself it goes only with --force and no live session, and
// after a snapshot of the present.
func (c *call) restore(ctx context.Context, d workspace.Definition, snap snapshot.Snapshot, o restoreOptions) error {
	dest := d.Dir + ".restored-" + snap.ID
	if o.to != "" {
		dest = c.path(o.to)
	}
	entries, err := os.ReadDir(dest)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("restore to %s: %w", dest, err)
	}
	if len(entries) > 0 && !o.force {
		return refused("name a new directory with --to, or add --force: the present is snapshotted first", "%s holds files that a restore could overwrite", handoff.Escape(dest))
	}
	if len(entries) > 0 && within(dest, d.Dir) {
		if c.s.space(d.Name).live() != nil {
			return refused("`perdure stop "+d.Name+"` first, or restore elsewhere with --to", "the session of %s works in %s", d.Name, dest)
		}
		if _, err := c.s.capture(ctx, d.Name, "restore", "before restoring "+snap.ID); err != nil {
			return err
		}
	} else if len(entries) > 0 {
		return refused("name a new directory with --to", "%s is not the workspace's directory, so what it holds can't be snapshotted first", handoff.Escape(dest))
	}
	n, err := c.s.snaps.Restore(ctx, snap, dest, o.only, o.force)
	if err != nil {
		return fmt.Errorf("restore %s to %s: %w", snap.ID, dest, err)
	}
	if c.json {
		return c.print(map[string]any{"snapshot": snap.ID, "to": dest, "files": n, "at": time.Now().UTC()})
	}
	_, err = fmt.Fprintf(c.out, "restored %d files of %s to %s\n", n, snap.ID, handoff.Escape(dest))
	return err
}
