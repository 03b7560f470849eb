package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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

// datedSnapshot is a snapshot as `snapshot` and `snapshots` print it: BehindSince is null where Behind is 0.
type datedSnapshot struct {
	snapshot.Snapshot
	BehindSince *time.Time `json:"behind_since"`
}

// dated adds since when the first of a list, newest first, is behind its record.
func dated(list []snapshot.Snapshot) datedSnapshot {
	return datedSnapshot{snapshotView(list[0]), behindSince(list)}
}

// from is the part of a list, newest first, that starts with a snapshot of this id; empty where there is none.
func from(list []snapshot.Snapshot, id string) []snapshot.Snapshot {
	i := slices.IndexFunc(list, func(s snapshot.Snapshot) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return list[i:]
}

// behindSince is the time of the first of the snapshots, without a break up to the newest, that are behind the same
// record as the newest is; nil where that one isn't behind. The list is newest first.
func behindSince(list []snapshot.Snapshot) *time.Time {
	var since *time.Time
	for _, s := range list {
		if s.Behind == 0 || s.Handoff != list[0].Handoff {
			break
		}
		since = &s.At
	}
	return since
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
		if err := present(d); err != nil {
			return err
		}
		snap, err := c.s.capture(cmd.Context(), d.Name, "manual", message)
		if err != nil {
			return err
		}
		if c.json {
			list, err := c.s.store.Snapshots(d.Name)
			if err != nil {
				return err
			}
			return c.print(datedSnapshot{snapshotView(snap), behindSince(from(list, snap.ID))})
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
		all := list
		if path != "" {
			if list, err = c.s.snaps.Versions(cmd.Context(), list, c.inside(d, path)); err != nil {
				return err
			}
		}
		if c.json {
			out := make([]datedSnapshot, 0, len(list))
			for _, s := range list {
				out = append(out, dated(from(all, s.ID)))
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

// inside makes a path relative to the workspace's directory, as snapshots name it.
func (c *call) inside(d workspace.Definition, path string) string {
	if filepath.IsAbs(path) {
		if rel, err := filepath.Rel(d.Dir, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

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
			if err := present(d); err != nil {
				return err
			}
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
		if style := c.style(false); style.Width > 0 {
			p := &patchView{out: c.out, style: style, lines: -1}
			return errors.Join(c.s.snaps.Patch(ctx, repo, from, to, p), p.end(""))
		}
		return c.s.snaps.Patch(ctx, repo, from, to, c.out) // byte for byte, for git apply
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
		return c.s.snaps.Cat(cmd.Context(), snap, c.inside(d, args[2]), c.r.Out)
	}}
}
