package server

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perdure/handoff"
	"perdure/handoff/results"
	"perdure/workspace"
)

// acceptDelivery verifies a delivery in scratch, on its own tree and, to be merged, again on the merge. Only one that
// holds is accepted; the receiver's tree is touched last, by a fast-forward.
func (s *Server) acceptDelivery(ctx context.Context, id string, merge bool) (delivery, error) {
	d, free, err := s.claimDelivery(id)
	if err != nil {
		return d, err
	}
	defer free()
	to, err := s.store.Workspace(d.To)
	if err != nil {
		return d, err
	}
	if merge {
		if err := s.mayMerge(ctx, to); err != nil {
			return d, err
		}
	}
	rep, err := s.verifyInScratch(ctx, d, to)
	if err != nil {
		return d, err
	}
	merged := ""
	if merge && !rep.Verdict.Halts() {
		if merged, err = s.merge(ctx, d, to, &rep); err != nil {
			return d, err
		}
	}
	now := time.Now().UTC()
	d.Verdict, d.Report, d.Merged = rep.Verdict, &rep, merged
	if !rep.Verdict.Halts() {
		d.State, d.Decided = deliveryAccepted, &now
	}
	if err := s.putDelivery(ctx, d); err != nil {
		return d, err
	}
	kind := "verified"
	if d.State == deliveryAccepted {
		kind = "accepted"
	}
	s.deliveryEvent(kind, d, map[string]any{"verdict": string(d.Verdict), "merged": d.Merged})
	return d, nil
}

func (s *Server) verifyInScratch(ctx context.Context, d delivery, to workspace.Definition) (handoff.Report, error) {
	leave, err := s.checks.enter(ctx)
	if err != nil {
		return handoff.Report{}, err
	}
	defer leave()
	may, err := s.allowedCommands(ctx, to)
	if err != nil {
		return handoff.Report{}, err
	}
	dir, remove, err := s.scratch(ctx, to, d.Snapshot, may.setup)
	if err != nil {
		return handoff.Report{}, err
	}
	defer remove()
	return s.verifyDelivery(ctx, d, to, dir), ctx.Err()
}

// mayMerge refuses a merge into a tree that somebody works in, or that has edits which a merge could mix with.
func (s *Server) mayMerge(ctx context.Context, to workspace.Definition) error {
	if sess := s.space(to.Name).live(); sess != nil {
		if w, _ := s.summarizeSession(ctx, sess); w.Activity == "working" {
			return refused("wait until it is idle, or `perdure stop "+to.Name+"`", "the session of %s is working", to.Name)
		}
	}
	if s.othersLiveIn(to) {
		return refused("wait until it ends", "another workspace's session works in %s", to.Dir)
	}
	out, err := gitIn(ctx, to.Dir, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return refused("accept it without --merge", "%s is no repository to merge into: %w", to.Dir, err)
	}
	if out != "" {
		return refused("commit or stash them first", "%s has uncommitted edits:\n%s", to.Name, out)
	}
	return nil
}

// gitIn runs git where the person's hooks and monitors don't run.
func gitIn(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "commit.gpgSign=false"}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// merge makes the merge in a clone, verifies it there, and only then moves the receiver's branch forward. The report
// gets what the merge's verification found; the commit is "" where it doesn't hold.
func (s *Server) merge(ctx context.Context, d delivery, to workspace.Definition, rep *handoff.Report) (string, error) {
	dir := filepath.Join(s.opts.State, "scratch", newID())
	defer removeAll(dir)
	head, err := gitIn(ctx, to.Dir, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	commit, err := s.mergeInClone(ctx, d, to, dir)
	if err != nil {
		return "", err
	}
	found, err := s.verifyMerge(ctx, d, to, dir)
	if err != nil {
		return "", err
	}
	rep.Findings = append(found, rep.Findings...)
	for _, f := range found {
		if f.Kind != handoff.Note {
			rep.Verdict = handoff.Worst(rep.Verdict, handoff.Verdict(f.Kind))
		}
	}
	if rep.Verdict.Halts() {
		return "", nil
	}
	if err := s.mayMerge(ctx, to); err != nil { // it took a while
		return "", err
	}
	if now, err := gitIn(ctx, to.Dir, "rev-parse", "HEAD"); err != nil || now != head {
		return "", refused("accept it again", "%s has moved on meanwhile", to.Name)
	}
	if _, _, err := s.captureIfChanged(ctx, to.Name, "verify"); err != nil {
		return "", err
	}
	if _, err := gitIn(ctx, to.Dir, "fetch", "-q", "--no-tags", "--no-write-fetch-head", dir, commit); err != nil {
		return "", err
	}
	if _, err := gitIn(ctx, to.Dir, "merge", "-q", "--ff-only", commit); err != nil {
		return "", refused("commit or move what is in the way", "the merge holds, but can't be brought in: %w", err)
	}
	return commit, nil
}

// mergeInClone clones the receiver, brings in the delivered commits and edits, and merges.
func (s *Server) mergeInClone(ctx context.Context, d delivery, to workspace.Definition, dir string) (string, error) {
	if _, err := gitIn(ctx, to.Dir, "clone", "-q", "--no-local", "--no-tags", to.Dir, dir); err != nil {
		return "", err
	}
	for _, kv := range [][2]string{{"user.name", "perdure"}, {"user.email", "perdure@localhost"}} {
		if _, err := gitIn(ctx, dir, "config", kv[0], kv[1]); err != nil {
			return "", err
		}
	}
	if _, err := gitIn(ctx, dir, "fetch", "-q", "--no-tags", s.snaps.RepoPath(d.Snapshot.Repo), "refs/snapshots/"+d.From+"/"+d.Snapshot.ID); err != nil {
		return "", fmt.Errorf("bring in the delivery: %w", err)
	}
	theirs := d.Snapshot.Head
	if theirs == "" {
		return "", refused("accept it without --merge", "the delivery has no commits to merge")
	}
	tree, err := gitIn(ctx, dir, "rev-parse", theirs+"^{tree}")
	if err != nil {
		return "", fmt.Errorf("bring in the delivered commits: %w", err)
	}
	message := fmt.Sprintf("Delivery %s from %s", d.ID, d.From)
	if tree != d.Snapshot.Tree { // edits that weren't committed are delivered too
		if theirs, err = gitIn(ctx, dir, "commit-tree", d.Snapshot.Commit+":tree", "-p", theirs, "-m", message); err != nil {
			return "", fmt.Errorf("bring in the delivered edits: %w", err)
		}
	}
	if _, err := gitIn(ctx, dir, "merge", "-q", "--no-edit", "-m", message, theirs); err != nil {
		files, _ := gitIn(ctx, dir, "diff", "--name-only", "--diff-filter=U")
		return "", refused("merge by hand, or ask the sender to merge first", "the delivery conflicts with %s: %s", to.Name, strings.ReplaceAll(orNothing(files), "\n", ", "))
	}
	return gitIn(ctx, dir, "rev-parse", "HEAD")
}

// verifyMerge runs the receiver's checks and the delivered ones on the merge. A result that neither side's record has
// is a contradiction; what was not run again doesn't count.
func (s *Server) verifyMerge(ctx context.Context, d delivery, to workspace.Definition, dir string) ([]handoff.Finding, error) {
	leave, err := s.checks.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := linkInto(to.Dir, dir, to.Link); err != nil {
		return nil, err
	}
	delivered, err := handoff.Decode(d.Encoded)
	if err != nil {
		return nil, err
	}
	may, err := s.allowedCommands(ctx, to)
	if err != nil {
		return nil, err
	}
	run := s.checkRunner(to, dir)
	if may.setup != "" {
		if r := run.Run(ctx, handoff.CheckSpec{Label: "setup", Cmd: may.setup, Results: "exit", Env: to.CheckEnv}); r.Exit != 0 {
			return []handoff.Finding{{Kind: string(handoff.Inconclusive), Subject: "setup", Found: "failed", Note: r.Tail}}, nil
		}
	}
	sides := []handoff.Measured{delivered.Measured}
	if own, _, err := s.inForce(to.Name); err == nil && own != nil {
		sides = append(sides, own.Measured)
	}
	m := mergeRun{flaky: to.Flaky, specs: s.mergeChecks(ctx, to, delivered, may)}
	if len(m.specs) == 0 {
		return []handoff.Finding{{Kind: string(handoff.Uncovered), Subject: "merge", Note: "nothing tests the merge"}}, nil
	}
	m.remember(sides)
	m.measure(ctx, run)
	return m.findings, ctx.Err()
}

// mergeChecks are the receiver's own, and the delivered ones that a person allowed there.
func (s *Server) mergeChecks(ctx context.Context, to workspace.Definition, delivered handoff.Record, may allowed) []handoff.CheckSpec {
	specs := slices.DeleteFunc(checkSpecs(to), func(c handoff.CheckSpec) bool { return may.refused[c.Cmd] != "" })
	refusedOnes := s.refusedChecks(ctx, to, delivered.Measured.Checks)
	for _, c := range delivered.Measured.Checks {
		if !slices.ContainsFunc(specs, c.RanAs) && refusedOnes[c.Cmd] == "" {
			specs = append(specs, specOf(to, c))
		}
	}
	return specs
}

// mergeRun compares what the checks say of a merge with what both sides recorded.
type mergeRun struct {
	specs    []handoff.CheckSpec
	flaky    []string
	known    map[string]results.Outcome // by test, of those checks that are run again
	findings []handoff.Finding
}

// remember takes what either side recorded; a failure that one of them knows is known.
func (m *mergeRun) remember(sides []handoff.Measured) {
	m.known = map[string]results.Outcome{}
	for _, side := range sides {
		var again []handoff.CheckRun
		for _, c := range side.Checks {
			if slices.ContainsFunc(m.specs, c.RanAs) {
				again = append(again, c)
				continue
			}
			m.find(handoff.Note, c.Label, "", "not run again", "its results don't count on the merge")
		}
		for id, o := range handoff.IDs(again) {
			if o == results.Fail || m.known[id] == "" {
				m.known[id] = o
			}
		}
	}
}

func (m *mergeRun) find(kind handoff.Verdict, subject, recorded, found, note string) {
	m.findings = append(m.findings, handoff.Finding{Kind: string(kind), Subject: subject, Recorded: recorded, Found: found, Note: strings.TrimSuffix("on the merge: "+note, ": ")})
}

func (m *mergeRun) measure(ctx context.Context, run *handoff.Runner) {
	now, answered := m.results(ctx, run)
	differing := m.differing(now)
	if !answered || len(differing) == 0 {
		return
	}
	again, answered := m.results(ctx, run) // two runs tell flaky from wrong
	for _, id := range differing {
		recorded := orAbsent(string(m.known[id]))
		switch {
		case !answered || again[id] != now[id]:
			m.find(handoff.Inconclusive, id, recorded, "flaky", "two runs in a row differ")
		case m.known[id] == "":
			m.find(handoff.Contradicted, id, recorded, string(now[id]), "neither record knows this")
		default:
			m.find(handoff.Contradicted, id, recorded, orAbsent(string(now[id])), "")
		}
	}
}

// results runs the checks once; false where one gave no answer, which is then a finding.
func (m *mergeRun) results(ctx context.Context, run *handoff.Runner) (map[string]results.Outcome, bool) {
	var runs []handoff.CheckRun
	answered := true
	for _, spec := range m.specs {
		r := run.Run(ctx, spec)
		if r.Problem != "" {
			m.find(handoff.Inconclusive, spec.Label, "", r.Problem, r.Note)
			answered = false
		}
		runs = append(runs, r)
	}
	return handoff.IDs(runs), answered
}

// differing are the tests whose outcome neither side recorded, but for those that a person lists as flaky.
func (m *mergeRun) differing(now map[string]results.Outcome) []string {
	var out []string
	for _, id := range sortedKeys(m.known) {
		if now[id] != m.known[id] && !handoff.Listed(m.flaky, id) {
			out = append(out, id)
		}
	}
	for _, id := range sortedKeys(now) {
		if (now[id] == results.Fail || now[id] == results.NotRun) && m.known[id] == "" && !handoff.Listed(m.flaky, id) {
			out = append(out, id)
		}
	}
	return out
}

func orAbsent(s string) string {
	if s == "" {
		return "absent"
	}
	return s
}
