package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/workspace"
	"perdure/workspace/journal"
)

func (c *call) exportCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{Use: "export NAME --to DIR", Short: "write everything in open forms, for leaving", Args: cobra.MaximumNArgs(1),
		Long: "export writes all that perdure has of a workspace into a new directory: the snapshots as a git bundle, the records as JSON and\nMarkdown, the journals as text and asciicast, the definition and the events as JSON. Nothing is removed."}
	cmd.Flags().StringVar(&to, "to", "", "the directory, which must be new or empty")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.own(args)
		if err != nil {
			return err
		}
		if to == "" {
			return usage("`perdure export NAME --to DIR`", "export needs --to")
		}
		return c.export(cmd.Context(), d, c.path(to))
	}
	return cmd
}

func (c *call) export(ctx context.Context, d workspace.Definition, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("export to %s: %w", dir, err)
	}
	if len(entries) > 0 {
		return refused("name a new directory with --to", "%s holds files", handoff.Escape(dir))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("export to %s: %w", dir, err)
	}
	e := &exporter{call: c, d: d, dir: dir}
	steps := []func(context.Context) error{e.snapshots, e.records, e.rest, e.journals, e.readme}
	bar := c.bar("exporting")
	for i, step := range steps {
		if err := step(ctx); err != nil {
			bar.done()
			return fmt.Errorf("export %s: %w", d.Name, err)
		}
		bar.set(i+1, len(steps))
	}
	bar.done()
	if c.json {
		return c.print(map[string]any{"exported": d.Name, "to": dir, "bundles": some(e.bundles), "snapshots": e.count, "records": e.recordCount, "sessions": e.sessions})
	}
	_, err = fmt.Fprintf(c.out, "exported %s to %s: %d snapshots, %d records, %d sessions\n", d.Name, handoff.Escape(dir), e.count, e.recordCount, e.sessions)
	return err
}

// exporter writes one workspace into one directory.
type exporter struct {
	*call
	d                            workspace.Definition
	dir                          string
	bundles                      []string
	count, recordCount, sessions int
}

func (e *exporter) write(name string, data []byte) error {
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func (e *exporter) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return e.write(name, append(data, '\n'))
}

func (e *exporter) snapshots(ctx context.Context) error {
	list, err := e.s.snaps.List(ctx, e.d.Name)
	if err != nil {
		return err
	}
	e.count = len(list)
	for i := range list {
		list[i] = snapshotView(list[i])
	}
	if err := e.writeJSON("snapshots.json", some(list)); err != nil || len(list) == 0 {
		return err
	}
	e.bundles, err = e.s.snaps.Bundle(ctx, list, e.dir)
	return err
}

func (e *exporter) records(context.Context) error {
	all, err := e.s.store.Records(e.d.Name)
	if err != nil {
		return err
	}
	e.recordCount = len(all)
	for i, encoded := range all {
		r, err := handoff.Decode(encoded)
		base := fmt.Sprintf("records/%04d", i+1)
		if err == nil {
			base += "-" + r.ID
			if err := e.write(base+".md", []byte(handoff.Markdown(r))); err != nil {
				return err
			}
		}
		// Byte for byte: the chain's hashes are of these bytes.
		if err := e.write(base+".json", encoded); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) rest(context.Context) error {
	if err := e.writeJSON("workspace.json", e.d); err != nil {
		return err
	}
	for name, read := range map[string]func(string) ([][]byte, error){"observations.json": e.s.store.Observations, "overrides.json": e.s.store.Overrides} {
		list, err := read(e.d.Name)
		if err != nil {
			return err
		}
		raw := make([]json.RawMessage, 0, len(list))
		for _, data := range list {
			raw = append(raw, data)
		}
		if err := e.writeJSON(name, raw); err != nil {
			return err
		}
	}
	reports, err := e.s.store.Reports(e.d.Name)
	if err != nil {
		return err
	}
	if err := e.writeJSON("verifications.json", some(reports)); err != nil {
		return err
	}
	events, err := e.s.store.Events(e.d.Name, 0, 0)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, ev := range events {
		data, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		lines.Write(append(data, '\n'))
	}
	return e.write("events.jsonl", lines.Bytes())
}

func (e *exporter) journals(context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(e.s.workspaceDir(e.d.Name), "sessions", "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		sess, err := workspace.Load(dir)
		if err != nil || !isDir(filepath.Join(dir, "journal")) {
			continue // expired, or never begun
		}
		e.sessions++
		if err := e.journal(sess); err != nil {
			return fmt.Errorf("session %s: %w", sess.ID, err)
		}
	}
	return nil
}

func (e *exporter) journal(sess *workspace.Session) error {
	base := filepath.Join("sessions", sess.ID)
	if err := e.writeJSON(filepath.Join(base, "session.json"), map[string]any{"id": sess.ID, "started": sess.Started, "ended": sess.Ended, "exit": sess.Exit, "argv": sess.Argv}); err != nil {
		return err
	}
	for name, o := range map[string]logOptions{"journal.txt": {text: true}, "journal.cast": {cast: true}} {
		r, err := journal.OpenReader(filepath.Join(sess.Dir, "journal"))
		if err != nil {
			return err
		}
		start, _ := r.Bounds()
		r.Close()
		o.from = start
		f, err := os.OpenFile(filepath.Join(e.dir, base, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		inner := *e.call
		inner.out, inner.json = f, false
		err = inner.log(sess, o)
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) readme(context.Context) error {
	bundle := "snapshots.bundle"
	if len(e.bundles) > 0 {
		bundle = e.bundles[0]
	}
	newest := ""
	if list, err := e.s.store.Snapshots(e.d.Name); err == nil && len(list) > 0 {
		newest = list[0].ID
	}
	text := fmt.Sprintf(`# %s

What perdure had of this workspace, in forms that need no perdure.

- %s: a git bundle; one commit a snapshot, whose folder tree/ is the working tree. snapshots.json lists them.

      git init --bare snapshots.git
      git -C snapshots.git fetch ../%s 'refs/*:refs/*'
      git -C snapshots.git for-each-ref
      git -C snapshots.git archive $(git -C snapshots.git for-each-ref --format='%%(refname)' | grep %s):tree | tar -x -C DIR

- records/: the handoffs, oldest first, as JSON and as Markdown; verifications.json, observations.json and overrides.json
- sessions/: what each session printed, as text and as asciicast v2 (asciinema play)
- workspace.json: the definition; events.jsonl: what happened
`, e.d.Name, bundle, bundle, newest)
	return e.write("README.md", []byte(text))
}
