package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/snapshot"
)

// override is a person's word that work goes on although the record doesn't hold. It covers what the halt's report
// found wrong with that record, and nothing that is found wrong later.
type override struct {
	ID       string            `json:"id"`
	At       time.Time         `json:"at"`
	Because  string            `json:"because"`
	By       string            `json:"by"`
	Verdict  handoff.Verdict   `json:"verdict"`
	Record   string            `json:"record"`
	Findings []handoff.Finding `json:"findings"`
	Changes  []snapshot.Change `json:"changes,omitempty"` // with the content that the person knew of
}

// covers says whether everything that would halt was there when the person decided.
func (o override) covers(rep handoff.Report) bool {
	if o.Record != rep.Record {
		return false
	}
	for _, f := range rep.Findings {
		if f.Kind == handoff.Note || !handoff.Verdict(f.Kind).Halts() {
			continue
		}
		if !slices.ContainsFunc(o.Findings, func(g handoff.Finding) bool {
			return g.Kind == f.Kind && g.Subject == f.Subject && g.Found == f.Found
		}) || !o.knew(rep.Changes, f.Subject) {
			return false
		}
	}
	return true
}

// knew says whether a file is as it was then; what is no changed file, or was overridden before contents were kept, is.
func (o override) knew(now []snapshot.Change, path string) bool {
	content := func(all []snapshot.Change) string {
		for _, c := range all {
			if c.Path == path {
				return c.To
			}
		}
		return ""
	}
	return len(o.Changes) == 0 || content(o.Changes) == content(now)
}

// overrides are all that were ever logged for a workspace, oldest first.
func (s *Server) overrides(name string) ([]override, error) {
	all, err := s.store.Overrides(name)
	if err != nil {
		return nil, fmt.Errorf("read the overrides: %w", err)
	}
	out := make([]override, len(all))
	for i, data := range all {
		if err := json.Unmarshal(data, &out[i]); err != nil {
			return nil, fmt.Errorf("read an override: %w", err)
		}
	}
	return out, nil
}

// line tells an override to a person.
func (o override) line() string {
	return fmt.Sprintf("%s by %s at %s, of record %s: %s", o.Verdict, o.By, o.At.Local().Format(time.DateTime), orNothing(o.Record), o.Because)
}

// overridden says whether a person has already decided that what this report found stops nobody.
func (s *Server) overridden(name string, rep handoff.Report) (bool, error) {
	all, err := s.overrides(name)
	return slices.ContainsFunc(all, func(o override) bool { return o.covers(rep) }), err
}

func (c *call) overrideCommand() *cobra.Command {
	var because string
	cmd := &cobra.Command{Use: "override NAME --because T", Short: "release a halted workspace without repair; it is logged for ever", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&because, "because", "", "why")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.who.mustBePerson("override a halt"); err != nil {
			return err
		}
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if strings.TrimSpace(because) == "" {
			return usage("--because T", "an override says why")
		}
		h, err := c.s.store.Halt(d.Name)
		if err != nil {
			return err
		}
		if h == nil {
			return refused("", "%s is not halted", d.Name)
		}
		return c.override(cmd.Context(), d.Name, because, h)
	}
	return cmd
}

func (c *call) override(ctx context.Context, name, because string, h *store.Halt) error {
	o := override{ID: newID(), At: time.Now().UTC(), Because: because, By: c.who.name, Verdict: h.Verdict, Record: h.Record}
	var rep handoff.Report
	if err := json.Unmarshal(h.Report, &rep); err != nil {
		return fmt.Errorf("read the report of the halt: %w", err)
	}
	o.Findings, o.Changes = rep.Findings, rep.Changes
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode the override: %w", err)
	}
	if err := c.s.snaps.Put(ctx, name, kindOverride, o.ID, data); err != nil {
		return fmt.Errorf("keep the override: %w", err)
	}
	if err := c.s.store.PutOverride(name, o.ID, data); err != nil {
		return err
	}
	if err := c.s.release(ctx, name, "overridden", map[string]any{"because": because, "by": c.who.name, "verdict": string(h.Verdict)}); err != nil {
		return err
	}
	if c.json {
		return c.print(o)
	}
	_, err = fmt.Fprintf(c.out, "%s is released; the override is logged\n", name)
	return err
}
