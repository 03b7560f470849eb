package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/workspace"
)

func (c *call) lsCommand() *cobra.Command {
	var needs bool
	cmd := &cobra.Command{Use: "ls [--needs]", Short: "list the workspaces", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&needs, "needs", false, "only those that need the person, the longest waiting first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := c.s.summaries(cmd.Context())
		if err != nil {
			return err
		}
		if needs {
			list = needing(list)
		}
		needsFirst(list)
		if c.json {
			return c.print(list)
		}
		return c.table(list)
	}
	return cmd
}

// needing keeps what waits for the person, the longest first; a turn that is done holds nobody up and comes last.
func needing(list []summary) []summary {
	list = slices.DeleteFunc(list, func(w summary) bool { return w.Attention == nil })
	needsFirst(list)
	return list
}

// needsFirst sorts what waits for the person to the top.
func needsFirst(list []summary) {
	slices.SortStableFunc(list, func(a, b summary) int {
		if ra, rb := urgency(a.Attention), urgency(b.Attention); ra != rb || ra == 2 {
			return ra - rb
		}
		return a.Attention.Since.Compare(b.Attention.Since)
	})
}

// urgency is 0 for what can't go on without the person, 1 for a turn that is done, 2 for the rest.
func urgency(a *attention) int {
	switch {
	case a == nil:
		return 2
	case a.Why == whyTurnDone:
		return 1
	}
	return 0
}

func (c *call) table(list []summary) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(c.out, "no workspaces")
		return err
	}
	t := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTATE\tSESSION\tHANDOFF\tNEEDS\tGOAL")
	for _, w := range list {
		session, record, need := "-", "-", ""
		if w.Session != nil {
			session = w.Session.State
			if w.Session.State == "live" {
				session += " " + w.Session.Activity
			}
		}
		if w.Handoff != nil {
			record = "recorded"
			if w.Handoff.Verdict != nil {
				record = *w.Handoff.Verdict
			}
			if w.Handoff.Behind > 0 {
				record += fmt.Sprintf(" +%d", w.Handoff.Behind)
			}
		}
		if w.Attention != nil {
			need = fmt.Sprintf("%s %s", w.Attention.Why, ago(w.Attention.Since))
		}
		if w.Unverified > 0 { // whatever else is more urgent
			need += fmt.Sprintf(", %d unverified", w.Unverified)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", w.Name, w.State, session, record, need, clip(handoff.Escape(w.Goal), 60))
	}
	return t.Flush()
}

func ago(t time.Time) string { return time.Since(t).Round(time.Second).String() }

func (c *call) showCommand() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "everything about one workspace", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if c.json {
			return c.printWorkspace(cmd.Context(), d)
		}
		w, err := c.s.details(cmd.Context(), d)
		if err != nil {
			return err
		}
		return c.describe(w)
	}}
}

func (c *call) printWorkspace(ctx context.Context, d workspace.Definition) error {
	w, err := c.s.details(ctx, d)
	if err != nil {
		return err
	}
	return c.print(w)
}

func (s *Server) details(ctx context.Context, d workspace.Definition) (details, error) {
	w, err := s.summarize(ctx, d)
	if err != nil {
		return details{}, err
	}
	if r, _, err := s.inForce(d.Name); err == nil && r != nil && w.Handoff != nil {
		if w.Handoff.Behind = s.behind(ctx, d, r.Measured.Tree); w.Handoff.Behind == 0 {
			w.Handoff.BehindSince = nil
		}
	}
	interval := d.Interval
	if interval == 0 {
		interval = defaultInterval
	}
	out := details{summary: w, Shares: some(d.Shares), Questions: some(d.Questions), Command: some(d.Command), Agent: d.Agent, Base: d.Base, Store: s.snaps.RepoPath(d.Repo), Path: d.Path,
		CheckCmds: some(d.Checks), Results: d.Results, Restart: d.Restart, OnMismatch: d.OnMismatch, Interval: interval.String(), Created: d.Created,
		Needs: d.Needs, Setup: d.Setup, Link: some(d.Link), CheckEnv: some(d.CheckEnv), Untested: some(d.Untested), Flaky: some(d.Flaky), Include: some(d.Include), Overrides: []json.RawMessage{}, Deliveries: []delivery{}}
	for _, x := range s.deliveriesOf(d.Name) {
		x = shownDelivery(x)
		x.Report = nil
		out.Deliveries = append(out.Deliveries, x)
	}
	overrides, err := s.store.Overrides(d.Name)
	if err != nil {
		return out, fmt.Errorf("read the overrides: %w", err)
	}
	for _, o := range overrides {
		out.Overrides = append(out.Overrides, o)
	}
	return out, nil
}

func (c *call) describe(w details) error {
	t := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
	row := func(k, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", k, handoff.Escape(fmt.Sprintf(format, args...)))
	}
	row("name", "%s", w.Name)
	row("state", "%s", w.State)
	row("directory", "%s", w.Dir)
	row("goal", "%s", w.Goal)
	row("owns", "%v", w.Owns)
	for _, ch := range w.CheckCmds {
		row("check", "%s: %s", ch.Label, ch.Cmd)
	}
	if w.Session != nil {
		row("session", "%s %s, pid %d, started %s", w.Session.ID, w.Session.State, w.Session.Pid, w.Session.Started.Format(time.RFC3339))
	}
	if w.Attention != nil {
		row("needs", "%s for %s: %s", w.Attention.Why, ago(w.Attention.Since), w.Attention.Text)
	}
	if w.Handoff != nil {
		since := ""
		if at := w.Handoff.BehindSince; at != nil {
			since = " since " + at.Local().Format(time.RFC3339)
		}
		row("handoff", "%s, behind by %d file(s)%s", w.Handoff.ID, w.Handoff.Behind, since)
	}
	if w.Snapshot != nil {
		row("snapshot", "%s %s", w.Snapshot.ID, w.Snapshot.Reason)
	}
	if w.SnapshotFailed != nil {
		row("snapshot failed", "for %s: %s", ago(w.SnapshotFailed.Since), w.SnapshotFailed.Error)
	}
	for _, data := range w.Overrides {
		var o override
		if err := json.Unmarshal(data, &o); err == nil {
			row("override", "%s", o.line())
		}
	}
	for _, x := range w.Deliveries {
		row("delivery", "%s %s → %s: %s %s", x.ID, x.From, x.To, x.State, x.Verdict)
	}
	row("store", "%s", w.Store)
	return t.Flush()
}
