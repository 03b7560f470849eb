package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"perdure/handoff"
	"perdure/handoff/results"
	"perdure/snapshot"
	"perdure/workspace"
)

// recordRequest is a claim, and what it answers.
type recordRequest struct {
	id      string // of the record, decided before
	author  string
	claim   handoff.Claim
	repairs string   // the record that this one repairs
	explain []string // 'SUBJECT: T', one for each finding
}

func (q recordRequest) recordID() string {
	if q.id != "" {
		return q.id
	}
	return newID()
}

// measure runs the workspace's checks on a tree that must not move meanwhile.
func (s *Server) measure(ctx context.Context, d workspace.Definition, reason string, progress func(handoff.Progress)) (measurement, error) {
	if err := present(d); err != nil {
		return measurement{}, err
	}
	leave, err := s.checks.enter(ctx)
	if err != nil {
		return measurement{}, err
	}
	defer leave()
	may, err := s.allowedCommands(ctx, d)
	if err != nil {
		return measurement{}, err
	}
	snap, err := s.capture(ctx, d.Name, reason, "")
	if err != nil {
		return measurement{}, err
	}
	run := s.checkRunner(d, d.Dir)
	run.Progress, run.Trace = progress, true
	run.Content = handoff.Content(ctx, s.snaps, snap.Repo, snap.Tree)
	m := measurement{snap: snap, measured: handoff.Measured{At: time.Now().UTC(), Head: snap.Head, Branch: snap.Branch, Tree: snap.Tree, Snapshot: snap.ID}}
	if before, err := s.snaps.Read(ctx, d.Name, d.Dir); err == nil && before.Tree == snap.Tree {
		m.measured.Nested = before.Inner
	}
	if err := s.waitReady(ctx, run, d, may); err != nil {
		return m, err
	}
	if m.measured.Checks, err = runChecks(ctx, d, run, may); err != nil {
		return m, err
	}
	after, err := s.snaps.Read(ctx, d.Name, d.Dir)
	if err != nil {
		return m, fmt.Errorf("read the tree after the checks: %w", err)
	}
	moved, err := s.movedUnder(ctx, d, snap.Tree, m.measured.Nested, after)
	if err != nil {
		return m, err
	}
	if len(moved) > 0 {
		if may.setup == "" {
			return m, refused("record again once nothing edits the tree; a check that writes files should write ignored ones", "%w: %s", errTreeMoved, strings.Join(moved, ", "))
		}
		// Somebody works on: the tree that was to be recorded is measured in a checkout of its own.
		if m.measured.Checks, err = s.checksInScratch(ctx, d, snap, may, progress); err != nil {
			return m, err
		}
	}
	if snap.Head != "" {
		if paths, ok, err := s.snaps.ChangedSince(ctx, d.Dir, after.Repo, snap.Head, snap.Tree); err == nil && ok {
			m.measured.Uncommitted = len(paths)
		}
	}
	return m, nil
}

func runChecks(ctx context.Context, d workspace.Definition, run *handoff.Runner, may allowed) ([]handoff.CheckRun, error) {
	var out []handoff.CheckRun
	for _, c := range checkSpecs(d) {
		if why := may.refused[c.Cmd]; why != "" {
			return nil, refused(why, "check %q needs consent", c.Label)
		}
		out = append(out, run.Run(ctx, c))
	}
	return out, ctx.Err()
}

func (s *Server) checksInScratch(ctx context.Context, d workspace.Definition, snap snapshot.Snapshot, may allowed, progress func(handoff.Progress)) ([]handoff.CheckRun, error) {
	dir, remove, err := s.scratch(ctx, d, snap, may.setup)
	if err != nil {
		return nil, err
	}
	defer remove()
	run := s.checkRunner(d, dir)
	run.Progress, run.Trace = progress, true
	run.Content = handoff.Content(ctx, s.snaps, snap.Repo, snap.Tree)
	return runChecks(ctx, d, run, may)
}

// movedUnder names the files that changed under the checks, other than those that a check declares to write, and the
// repositories within whose own files did.
func (s *Server) movedUnder(ctx context.Context, d workspace.Definition, tree string, nested map[string]string, after snapshot.State) ([]string, error) {
	moved := handoff.DifferingKeys(nested, after.Inner)
	if after.Tree == tree {
		return sorted(moved), nil
	}
	changes, err := s.snaps.Diff(ctx, after.Repo, tree, after.Tree)
	if err != nil {
		return nil, fmt.Errorf("%w, and it can't be told how: %w", errTreeMoved, err)
	}
	specs := checkSpecs(d)
	for _, c := range changes {
		if !handoff.Declared(d.Dir, specs, c.Path) {
			moved = append(moved, c.Path)
		}
	}
	return sorted(moved), nil
}

// problems refuses a record whose checks gave no answer.
func problems(name string, m handoff.Measured) error {
	for _, c := range m.Checks {
		if c.Problem != "" {
			return &problem{handoff.Inconclusive.ExitStatus(), "inconclusive", fmt.Errorf("check %q gave no answer: %s\n%s", c.Label, c.Problem, c.Tail),
				fmt.Sprintf("mend the check (`perdure set %s --check …`), then record again", name)}
		}
	}
	return nil
}

// record measures, compares the claim with what was measured, and stores both.
func (s *Server) record(ctx context.Context, name string, q recordRequest, progress func(handoff.Progress)) (handoff.Record, error) {
	d, err := s.store.Workspace(name)
	if err != nil {
		return handoff.Record{}, err
	}
	reason := "record"
	if q.repairs != "" || q.explain != nil {
		reason = "repair"
	}
	m, err := s.measure(ctx, d, reason, progress)
	if err != nil {
		return handoff.Record{}, err
	}
	if err := problems(name, m.measured); err != nil {
		return handoff.Record{}, err
	}
	claim, mismatches, err := handoff.Accept(q.claim, m.measured)
	if err != nil {
		return handoff.Record{}, err
	}
	if len(mismatches) > 0 {
		return handoff.Record{}, contradicted(mismatches)
	}
	r := handoff.Record{ID: q.recordID(), Author: q.author, Workspace: name, Measured: m.measured, Claim: &claim, Repairs: q.repairs, Explain: q.explain}
	if r, err = s.appendRecord(ctx, name, r); err != nil {
		return r, err
	}
	s.event(name, "recorded", map[string]any{"record": r.ID, "seq": r.Seq, "by": q.author})
	_, err = s.writeBrief(ctx, d)
	return r, err
}

// contradicted refuses a claim, naming each test.
func contradicted(list []handoff.Mismatch) error {
	var b strings.Builder
	b.WriteString("the measurement contradicts the claim")
	for _, m := range list {
		fmt.Fprintf(&b, "\n  %s: claimed %s, measured %s", m.ID, orNothing(m.Claimed), orNothing(m.Measured))
		if m.Why != "" {
			fmt.Fprintf(&b, " (%s)", m.Why)
		}
	}
	return &problem{handoff.Contradicted.ExitStatus(), "contradicted", fmt.Errorf("%s", b.String()),
		"claim each failure with --failed 'ID: why', and only tests that were measured with --passed"}
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// repair answers a broken record with a new measured one, and releases the halt.
func (s *Server) repair(ctx context.Context, name string, q recordRequest, progress func(handoff.Progress)) (handoff.Record, error) {
	h, err := s.store.Halt(name)
	if err != nil {
		return handoff.Record{}, err
	}
	if h == nil {
		return handoff.Record{}, refused(fmt.Sprintf("`perdure handoff record %s` adds a record", name), "%s is not halted: there is nothing to repair", name)
	}
	if err := explained(h.Report, q.explain); err != nil {
		return handoff.Record{}, err
	}
	q.repairs = h.Record
	r, err := s.record(ctx, name, q, progress)
	if err != nil {
		return r, err
	}
	return r, s.release(ctx, name, "repaired", map[string]any{"record": r.ID, "repairs": h.Record, "by": q.author})
}

// carry runs the checks again and keeps the claims, where no result changed. After an invalid verdict there is nothing
// to keep: of a record that can't be trusted, or whose tree is nowhere to be found, equal results say too little.
func (s *Server) carry(ctx context.Context, name string, q recordRequest, progress func(handoff.Progress)) (handoff.Record, error) {
	old, chain, err := s.inForce(name)
	if err == nil {
		err = s.sound(ctx, name, chain)
	}
	if err != nil {
		return handoff.Record{}, refused("repair with --explain instead", "nothing to carry: %w", err)
	}
	h, err := s.store.Halt(name)
	if err != nil {
		return handoff.Record{}, err
	}
	if h != nil && h.Verdict == handoff.Invalid {
		return handoff.Record{}, refused(fmt.Sprintf("`perdure handoff repair %s --explain 'SUBJECT: why' …` answers each finding; or mend it, and verify again", name),
			"nothing to carry: %s", h.Reason)
	}
	if old == nil || old.Claim == nil {
		return handoff.Record{}, missing("record one with `perdure handoff record`", "%s has no record to carry", name)
	}
	d, err := s.store.Workspace(name)
	if err != nil {
		return handoff.Record{}, err
	}
	m, err := s.measure(ctx, d, "repair", progress)
	if err != nil {
		return handoff.Record{}, err
	}
	if err := problems(name, m.measured); err != nil {
		return handoff.Record{}, err
	}
	if diff := changedResults(*old, m.measured, d.Flaky); len(diff) > 0 {
		return handoff.Record{}, refused(fmt.Sprintf("`perdure handoff repair %s --explain 'SUBJECT: why' …` answers each finding", name),
			"results changed, so the claims can't be carried:\n  %s", strings.Join(diff, "\n  "))
	}
	r := handoff.Record{ID: q.recordID(), Author: q.author, Workspace: name, Measured: m.measured, Claim: old.Claim, Repairs: old.ID}
	if r, err = s.appendRecord(ctx, name, r); err != nil {
		return r, err
	}
	s.event(name, "recorded", map[string]any{"record": r.ID, "seq": r.Seq, "by": q.author, "carried": old.ID})
	if err := s.release(ctx, name, "repaired", map[string]any{"record": r.ID, "repairs": old.ID, "carried": true, "by": q.author}); err != nil {
		return r, err
	}
	_, err = s.writeBrief(ctx, d)
	return r, err
}

// changedResults lists what stands against a record's claims: tests whose outcome differs, either way, failures that
// it doesn't name, and what it says was not attempted and passes now. A new test that passes contradicts nobody.
func changedResults(old handoff.Record, after handoff.Measured, flaky []string) []string {
	was, is := outcomes(old.Measured), outcomes(after)
	var out []string
	for id, o := range was {
		if is[id] != o && !handoff.Listed(flaky, id) {
			out = append(out, fmt.Sprintf("%s: %s → %s", id, o, orNothing(string(is[id]))))
		}
	}
	for id, o := range is {
		_, known := was[id]
		news := o == results.Fail || o == results.NotRun || slices.Contains(old.Claim.NotAttempted, id)
		if !known && news && !handoff.Listed(flaky, id) {
			out = append(out, fmt.Sprintf("%s: new → %s", id, o))
		}
	}
	for _, c := range after.Checks {
		for _, before := range old.Measured.Checks {
			if before.Cmd == c.Cmd && before.Cwd == c.Cwd && len(out) == 0 && (before.Exit == 0) != (c.Exit == 0) && len(flaky) == 0 {
				out = append(out, fmt.Sprintf("%s: exit status %d → %d", c.Label, before.Exit, c.Exit))
			}
		}
	}
	return sorted(out)
}

// outcomes gives every measured test by its ID; two checks that differ about one are told apart.
func outcomes(m handoff.Measured) map[string]results.Outcome { return handoff.IDs(m.Checks) }
