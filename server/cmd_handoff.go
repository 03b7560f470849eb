package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/workspace"
)

func (c *call) handoffCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "handoff", Short: "records: measured, claimed, verified", Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("`perdure handoff --help` lists them", "unknown command %q", "handoff "+args[0])
		}
		return cmd.Help()
	}}
	cmd.AddCommand(c.recordCommand(), c.repairCommand(), c.verifyCommand(), c.overrideCommand())
	cmd.AddCommand(c.handoffShowCommand(), c.handoffLogCommand(), c.handoffExportCommand())
	return cmd
}

// findRecord is the record in force, or the one whose id begins so.
func (c *call) findRecord(d workspace.Definition, id string) (handoff.Record, error) {
	if id == "" {
		r, _, err := c.s.inForce(d.Name)
		if err != nil {
			return handoff.Record{}, err
		}
		if r == nil {
			return handoff.Record{}, missing("record one with `perdure handoff record`", "%s has no record", d.Name)
		}
		return *r, nil
	}
	all, err := c.s.store.Records(d.Name)
	if err != nil {
		return handoff.Record{}, err
	}
	var found []handoff.Record
	var broken error
	for _, e := range all {
		r, err := handoff.Decode(e)
		if err != nil {
			broken = err
			continue
		}
		if strings.HasPrefix(r.ID, strings.ToUpper(id)) {
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return handoff.Record{}, usage("write more of it", "%d records begin with %s", len(found), quoteName(id))
	case broken != nil:
		return handoff.Record{}, missing("", "no readable record %s; one can't be read: %w", quoteName(id), broken)
	}
	return handoff.Record{}, missing("`perdure handoff log "+d.Name+"` lists them", "no record %s", quoteName(id))
}

func (c *call) handoffShowCommand() *cobra.Command {
	return &cobra.Command{Use: "show NAME [ID]", Short: "one record", Args: cobra.MaximumNArgs(2), RunE: func(_ *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		r, err := c.findRecord(d, at(args, 1))
		if err != nil {
			return err
		}
		if c.json {
			return c.printRecord(r)
		}
		_, err = fmt.Fprint(c.out, handoff.Markdown(r))
		return err
	}}
}

func at(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

func (c *call) handoffExportCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{Use: "export NAME [--to FILE]", Short: "a marked Markdown copy of the record in force", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&to, "to", "", "the file (default: HANDOFF.md in the workspace's directory)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		d, err := c.own(args)
		if err != nil {
			return err
		}
		r, err := c.findRecord(d, "")
		if err != nil {
			return err
		}
		file := d.Dir + "/HANDOFF.md"
		if to != "" {
			file = c.path(to)
		}
		if old, err := os.ReadFile(file); err == nil && !strings.HasPrefix(string(old), handoff.ExportMark) {
			return refused("name another file with --to", "%s was not written by perdure", handoff.Escape(file))
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("export: %w", err)
		}
		if err := renameio.WriteFile(file, []byte(exportText(r)), 0o644, renameio.WithTempDir(filepath.Dir(file))); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		_, err = fmt.Fprintf(c.out, "exported %s to %s\n", r.ID, handoff.Escape(file))
		return err
	}
	return cmd
}

// exportText is the marked copy: by its first line verification knows it for no edit.
func exportText(r handoff.Record) string {
	const note = "<!-- a copy of the handoff in force; perdure holds the record, edits here change nothing -->"
	return handoff.ExportMark + "\n" + note + strings.TrimPrefix(handoff.Markdown(r), handoff.ExportMark)
}
