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
	"perdure/snapshot"
	"perdure/workspace"
)

// summary is one workspace as `ls --json` promises it.
type summary struct {
	Name      string           `json:"name"`
	Dir       string           `json:"dir"`
	Goal      string           `json:"goal"`
	Owns      []string         `json:"owns"`
	Checks    []string         `json:"checks"`
	State     string           `json:"state"`
	Session   *sessionSummary  `json:"session"`
	Attention *attention       `json:"attention"`
	Handoff   *handoffSummary  `json:"handoff"`
	Snapshot  *snapshotSummary `json:"snapshot"`
}

type sessionSummary struct {
	ID       string     `json:"id"`
	State    string     `json:"state"`
	Pid      int        `json:"pid"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended"`
	Exit     *int       `json:"exit"`
	Signal   string     `json:"signal,omitempty"`
	Attached int        `json:"attached"`
	Activity string     `json:"activity"`
	Source   string     `json:"source"`
	Repair   bool       `json:"repair"`
}

type attention struct {
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	Text  string    `json:"text"`
}

type handoffSummary struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Verdict *string   `json:"verdict"`
	Behind  int       `json:"behind"`
}

type snapshotSummary struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// details is what `show` adds.
type details struct {
	summary
	Shares     []string          `json:"shares"`
	Questions  []string          `json:"questions"`
	Command    []string          `json:"command"`
	Base       string            `json:"base"`
	Store      string            `json:"store"`
	Path       string            `json:"path"`
	CheckCmds  []workspace.Check `json:"check_commands"`
	Results    string            `json:"results"`
	Restart    string            `json:"restart"`
	OnMismatch string            `json:"on_mismatch"`
	Interval   string            `json:"interval"`
	Created    time.Time         `json:"created"`
	Untested   []string          `json:"untested"`
	Flaky      []string          `json:"flaky"`
	Overrides  []json.RawMessage `json:"overrides"`
}

// workingFor is how long after its last output a session still counts as working.
const workingFor = 3 * time.Second

func (s *Server) summaries(ctx context.Context) ([]summary, error) {
	all, err := s.store.Workspaces()
	if err != nil {
		return nil, fmt.Errorf("read the workspaces: %w", err)
	}
	out := make([]summary, 0, len(all))
	for _, d := range all {
		w, err := s.summarize(ctx, d)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

func (s *Server) summarize(ctx context.Context, d workspace.Definition) (summary, error) {
	w := summary{Name: d.Name, Dir: d.Dir, Goal: d.Goal, Owns: some(d.Owns), Checks: []string{}, State: "stopped"}
	for _, c := range d.Checks {
		w.Checks = append(w.Checks, c.Cmd)
	}
	if sess := s.space(d.Name).newest(); sess != nil {
		w.Session = s.summarizeSession(ctx, sess)
		if sess.State == workspace.Live {
			w.State = "running"
		}
		if sess.State == workspace.Lost {
			w.Attention = &attention{Why: "lost", Since: sess.Started, Text: "the session was lost; attaching verifies and starts a fresh one"}
		}
	}
	h, err := s.store.Halt(d.Name)
	if err != nil {
		return w, fmt.Errorf("read the halt of %s: %w", d.Name, err)
	}
	if h != nil {
		w.State = "halted"
		w.Attention = &attention{Why: "halted", Since: h.At, Text: h.Reason}
	}
	snap, err := s.latest(d.Name)
	if err != nil {
		return w, err
	}
	if snap != nil {
		w.Snapshot = &snapshotSummary{snap.ID, snap.At, snap.Reason}
	}
	w.Handoff, err = s.summarizeHandoff(d.Name, snap)
	return w, err
}

func (s *Server) summarizeHandoff(name string, snap *snapshot.Snapshot) (*handoffSummary, error) {
	r, _, err := s.inForce(name)
	if err != nil {
		v := string(handoff.Invalid)
		return &handoffSummary{Verdict: &v}, nil
	}
	if r == nil {
		return nil, nil
	}
	out := &handoffSummary{ID: r.ID, At: r.Measured.At}
	if snap != nil && snap.Handoff == r.ID {
		out.Behind = snap.Behind
	}
	reports, err := s.store.Reports(name)
	if err != nil {
		return nil, fmt.Errorf("read the reports of %s: %w", name, err)
	}
	for _, rep := range slices.Backward(reports) {
		if rep.Record == r.ID {
			v := string(rep.Verdict)
			out.Verdict = &v
			break
		}
	}
	return out, nil
}

func (s *Server) summarizeSession(ctx context.Context, sess *workspace.Session) *sessionSummary {
	out := &sessionSummary{ID: sess.ID, State: string(sess.State), Pid: sess.Pid, Started: sess.Started, Ended: sess.Ended, Activity: "idle", Source: "process", Repair: sess.Repair}
	if sess.Exit != nil {
		out.Exit, out.Signal = &sess.Exit.Code, sess.Exit.Signal
	}
	if sess.State != workspace.Live {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	st, err := sess.Status(ctx)
	if err != nil {
		return out // a host that does not answer in time shows as idle, not as gone
	}
	out.Attached, out.Source = st.Attached, "screen"
	switch {
	case st.Bell:
		out.Activity, out.Source = "waiting", "bell"
	case time.Since(st.LastOutput) < workingFor:
		out.Activity = "working"
	}
	return out
}

// some makes an absent list an empty one, which JSON shows as [].
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

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
		if c.json {
			return c.print(list)
		}
		return c.table(list)
	}
	return cmd
}

// needing keeps what waits for the person, the longest first.
func needing(list []summary) []summary {
	list = slices.DeleteFunc(list, func(w summary) bool { return w.Attention == nil })
	slices.SortStableFunc(list, func(a, b summary) int { return a.Attention.Since.Compare(b.Attention.Since) })
	return list
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", w.Name, w.State, session, record, need, clip(escapeLine(w.Goal), 60))
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
		w.Handoff.Behind = s.behind(ctx, d, r.Measured.Tree)
	}
	interval := d.Interval
	if interval == 0 {
		interval = defaultInterval
	}
	out := details{summary: w, Shares: some(d.Shares), Questions: some(d.Questions), Command: some(d.Command), Base: d.Base, Store: s.snaps.RepoPath(d.Repo), Path: d.Path,
		CheckCmds: some(d.Checks), Results: d.Results, Restart: d.Restart, OnMismatch: d.OnMismatch, Interval: interval.String(), Created: d.Created,
		Untested: some(d.Untested), Flaky: some(d.Flaky), Overrides: []json.RawMessage{}}
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
		fmt.Fprintf(t, "%s\t%s\n", k, escapeLine(fmt.Sprintf(format, args...)))
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
		row("handoff", "%s, behind by %d file(s)", w.Handoff.ID, w.Handoff.Behind)
	}
	if w.Snapshot != nil {
		row("snapshot", "%s %s", w.Snapshot.ID, w.Snapshot.Reason)
	}
	for _, o := range w.Overrides {
		row("override", "%s", o)
	}
	row("store", "%s", w.Store)
	return t.Flush()
}

func (c *call) eventsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{Use: "events [NAME] [--follow]", Short: "what happened", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens next")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0] // a removed workspace's events can still be read
			if err := workspace.ValidName(name); err != nil {
				return usage("", "%w", err)
			}
		}
		return c.follow(cmd.Context(), name, follow)
	}
	return cmd
}

func (c *call) follow(ctx context.Context, name string, follow bool) error {
	var after uint64
	for first := true; ; first = false {
		wake := c.s.feed.next() // before the read, so that nothing falls between
		events, err := c.s.store.Events(name, after, 0)
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		if first && name != "" && len(events) == 0 {
			if _, err := c.workspace([]string{name}); err != nil {
				return err
			}
		}
		for _, e := range events {
			after = e.Seq
			if err := c.printEvent(e); err != nil {
				return nil // the reader left
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.s.ctx.Done():
			return nil
		case <-wake:
		}
	}
}

func (c *call) printEvent(e storeEvent) error {
	if c.json {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "%s\n", data)
		return err
	}
	keys := make([]string, 0, len(e.Fields))
	for k := range e.Fields {
		keys = append(keys, k)
	}
	line := fmt.Sprintf("%s  %-16s %-12s", e.At.Local().Format("2006-01-02 15:04:05"), e.Workspace, e.Kind)
	for _, k := range sorted(keys) {
		line += fmt.Sprintf(" %s=%v", k, e.Fields[k])
	}
	_, err := fmt.Fprintln(c.out, escapeLine(line))
	return err
}
