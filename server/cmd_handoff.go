package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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

// logEntry is one line of `handoff log`.
type logEntry struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"` // record | observation | override
	Seq      int       `json:"seq,omitempty"`
	At       time.Time `json:"at"`
	Author   string    `json:"author,omitempty"`
	Head     string    `json:"head,omitempty"`
	Repairs  string    `json:"repairs,omitempty"`
	Verdicts []string  `json:"verdicts,omitempty"`
	Text     string    `json:"text,omitempty"`
	Error    string    `json:"error,omitempty"`
}

func (c *call) handoffLogCommand() *cobra.Command {
	return &cobra.Command{Use: "log NAME", Short: "the chain of records with their verdicts, observations and overrides", Args: cobra.MaximumNArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		list, err := c.s.handoffLog(d.Name)
		if err != nil {
			return err
		}
		if c.json {
			return c.print(list)
		}
		t := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
		for _, e := range list {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.At.Local().Format("2006-01-02 15:04:05"), e.Kind, e.ID, strings.Join(e.Verdicts, " → "), handoff.Escape(e.Text+e.Error))
		}
		return t.Flush()
	}}
}

func (s *Server) handoffLog(name string) ([]logEntry, error) {
	out := []logEntry{}
	records, err := s.store.Records(name)
	if err != nil {
		return nil, err
	}
	reports, err := s.store.Reports(name)
	if err != nil {
		return nil, err
	}
	for _, encoded := range records {
		out = append(out, recordEntry(encoded, reports))
	}
	observations, err := s.store.Observations(name)
	if err != nil {
		return nil, err
	}
	for _, data := range observations {
		var o observation
		if err := json.Unmarshal(data, &o); err != nil {
			continue // never in a record's place, so never a reason to fail
		}
		out = append(out, logEntry{ID: o.ID, Kind: "observation", At: o.At, Author: o.Author, Head: o.Head, Text: fmt.Sprintf("%s, %d file(s) changed since the record", o.Reason, len(o.Changed))})
	}
	overrides, err := s.store.Overrides(name)
	if err != nil {
		return nil, err
	}
	for _, data := range overrides {
		var o struct {
			ID, Because, By string
			At              time.Time
		}
		if err := json.Unmarshal(data, &o); err != nil {
			return nil, fmt.Errorf("read an override: %w", err)
		}
		out = append(out, logEntry{ID: o.ID, Kind: "override", At: o.At, Author: "person", Text: o.Because})
	}
	slices.SortStableFunc(out, func(a, b logEntry) int { return a.At.Compare(b.At) })
	return out, nil
}

func recordEntry(encoded []byte, reports []handoff.Report) logEntry {
	r, err := handoff.Decode(encoded)
	if err != nil {
		return logEntry{Kind: "record", Error: "can't be read: " + err.Error()}
	}
	e := logEntry{ID: r.ID, Kind: "record", Seq: r.Seq, At: r.Measured.At, Author: r.Author, Head: r.Measured.Head, Repairs: r.Repairs}
	if r.Claim != nil && r.Claim.Next != nil {
		e.Text = "next: " + r.Claim.Next.Do
	} else if r.Claim != nil && r.Claim.Finished {
		e.Text = "finished"
	}
	for _, rep := range reports {
		if rep.Record == r.ID {
			e.Verdicts = append(e.Verdicts, string(rep.Verdict))
		}
	}
	return e
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
