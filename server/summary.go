package server

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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
	// Unverified is how many deliveries wait for it.
	Unverified int `json:"unverified,omitempty"`
	// SnapshotFailed says since when no snapshot could be taken, and why.
	SnapshotFailed *failure `json:"snapshot_failed,omitempty"`
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
	// BehindSince is when a snapshot first found the tree behind this record; null where none did, or where it no
	// longer is.
	BehindSince *time.Time `json:"behind_since"`
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
	Agent      string            `json:"agent"`
	Base       string            `json:"base"`
	Store      string            `json:"store"`
	Path       string            `json:"path"`
	CheckCmds  []workspace.Check `json:"check_commands"`
	Results    string            `json:"results"`
	Restart    string            `json:"restart"`
	OnMismatch string            `json:"on_mismatch"`
	Interval   string            `json:"interval"`
	Created    time.Time         `json:"created"`
	Needs      string            `json:"needs"`
	Setup      string            `json:"setup"`
	Link       []string          `json:"link"`
	CheckEnv   []string          `json:"check_env"`
	Untested   []string          `json:"untested"`
	Flaky      []string          `json:"flaky"`
	Include    []string          `json:"include"`
	Overrides  []json.RawMessage `json:"overrides"`
	Deliveries []delivery        `json:"deliveries"`
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
		w.Session, w.Attention = s.summarizeSession(ctx, sess)
		if sess.State == workspace.Live {
			w.State = "running"
		}
		if sess.State == workspace.Lost {
			w.Attention = &attention{Why: "lost", Since: sess.Started, Text: "the session was lost; attaching verifies and starts a fresh one"}
		}
	}
	if cmd := s.unconsented(ctx, d); cmd != "" {
		w.Attention = &attention{Why: "consent", Since: d.Created, Text: "may it run? " + cmd}
	}
	if waiting := s.waiting(d); len(waiting) > 0 {
		x := waiting[0]
		w.Unverified = len(waiting)
		w.Attention = &attention{Why: "delivery", Since: x.At, Text: fmt.Sprintf("unverified, from %s: `perdure accept %s`", x.From, x.ID)}
	}
	if w.SnapshotFailed = s.space(d.Name).snapshotFailure(); w.SnapshotFailed != nil {
		w.Attention = &attention{Why: "disk", Since: w.SnapshotFailed.Since, Text: "no snapshot could be taken: " + w.SnapshotFailed.Error}
	}
	if full := s.fullDisk(); full != nil {
		w.Attention = &attention{Why: "disk", Since: full.Since, Text: full.Error}
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
		list, err := s.store.Snapshots(name)
		if err != nil {
			return nil, fmt.Errorf("list the snapshots of %s: %w", name, err)
		}
		out.BehindSince = behindSince(list)
	}
	last, err := s.lastReport(name, r.ID)
	if err != nil {
		return nil, err
	}
	if last != nil {
		v := string(last.Verdict)
		out.Verdict = &v
	}
	return out, nil
}

func (s *Server) summarizeSession(ctx context.Context, sess *workspace.Session) (*sessionSummary, *attention) {
	out := &sessionSummary{ID: sess.ID, State: string(sess.State), Pid: sess.Pid, Started: sess.Started, Ended: sess.Ended, Activity: "idle", Source: "process", Repair: sess.Repair}
	if sess.Exit != nil {
		out.Exit, out.Signal = &sess.Exit.Code, sess.Exit.Signal
	}
	if sess.State != workspace.Live {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	st, err := sess.Status(ctx)
	if err != nil {
		return out, nil // a host that does not answer in time shows as idle, not as gone
	}
	sp := s.space(sess.Workspace)
	s.see(sp, sess, st)
	sp.mu.Lock()
	now := judge(st, sp.hookOf(sess), shellArgv(sess.Argv), time.Now())
	sp.mu.Unlock()
	out.Attached, out.Activity, out.Source = st.Attached, now.activity, now.source
	return out, now.attention()
}

// some makes an absent list an empty one, which JSON shows as [].
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
