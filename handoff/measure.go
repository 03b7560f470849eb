package handoff

import (
	"context"
	"slices"
	"strings"

	"perdure/handoff/results"
	"perdure/snapshot"
)

// checks runs the workspace's checks, then those that the record names
// besides, and compares each with the record.
func (v *verifier) checks(ctx context.Context) {
	if v.Runner == nil {
		v.rep.Scope = ScopeQuick
		v.find(Note, "checks", "", "not run", "there is nothing to run them with")
		return
	}
	if v.Unready != "" {
		v.find(Inconclusive, "setup", "", "failed", v.Unready)
		return
	}
	if v.Live && v.moved && v.Runner.Dir == v.Dir {
		// The moved tree isn't what was recorded: its results say nothing
		// about the record, and a half-typed file would halt a good one.
		v.rep.Scope = ScopeQuick
		v.find(Note, "checks", "", "not run", "the live session's tree has moved on; the record's tree needs a scratch checkout")
		return
	}
	if !v.ready(ctx) {
		return
	}
	before, err := v.Snapshots.Read(ctx, v.Workspace, v.Dir)
	if err != nil {
		before = v.state
	}
	tree := before.Tree
	if v.Runner.Dir != v.Dir {
		tree = v.Record.Measured.Tree
	}
	v.Runner.Trace, v.Runner.Edited, v.Runner.Content = true, v.editedFiles(ctx), Content(ctx, v.Snapshots, before.Repo, tree)
	var runs []measuredCheck
	for _, spec := range v.plan() {
		runs = append(runs, v.measure(ctx, spec))
	}
	v.compare(runs)
	v.doneWhen(ctx)
	for _, m := range runs {
		v.rep.Checks = append(v.rep.Checks, m.run)
	}
	v.editsByChecks(ctx, before)
	v.coverage(runs)
}

// ready runs --needs: while the surroundings aren't there, no check counts.
func (v *verifier) ready(ctx context.Context) bool {
	if v.Needs == "" {
		return true
	}
	run := v.Runner.Run(ctx, CheckSpec{Label: "needs", Cmd: v.Needs, Results: "exit", Env: v.Env})
	if run.Exit == 0 && run.Problem == "" {
		return true
	}
	v.find(Inconclusive, "needs", "", "not ready", lastLines(run.Tail, "the environment isn't ready"))
	return false
}

// measuredCheck is one run, beside what the record has of the same command.
type measuredCheck struct {
	spec     CheckSpec
	run      CheckRun
	recorded *CheckRun
	// unstable are tests whose second run differed from the first.
	unstable map[string]bool
}

// plan is the workspace's own checks, and the recorded ones not among them.
func (v *verifier) plan() []CheckSpec {
	specs := slices.Clone(v.Checks)
	for _, c := range v.Record.Measured.Checks {
		known := slices.ContainsFunc(specs, c.RanAs)
		switch {
		case known || c.Cmd == "":
		case v.Recorded != nil:
			specs = append(specs, v.Recorded(c))
		default:
			specs = append(specs, c.Spec(CheckSpec{}))
		}
	}
	return specs
}

// measure runs one check, and once more if it disagrees with the record: two
// runs that differ tell flakiness from a wrong record.
func (v *verifier) measure(ctx context.Context, spec CheckSpec) measuredCheck {
	m := measuredCheck{spec: spec, unstable: map[string]bool{}}
	for i, c := range v.Record.Measured.Checks {
		if c.RanAs(spec) {
			m.recorded = &v.Record.Measured.Checks[i]
			break
		}
	}
	if why := v.Refused[spec.Cmd]; why != "" {
		m.run = CheckRun{Label: spec.Label, Cmd: spec.Cmd, Cwd: ".", Exit: -1, Trace: "off", Problem: ProblemConsent, Note: why}
		return m
	}
	// A record that has what was printed is compared with the same, whatever files the command names.
	spec.Printed = m.recorded != nil && !strings.Contains(m.recorded.Tool, "junit")
	m.run = v.Runner.Run(ctx, spec)
	if m.run.Problem != "" || m.recorded == nil || len(v.differing(m)) == 0 || ctx.Err() != nil {
		return m
	}
	again := v.Runner.Run(ctx, spec)
	if again.Problem != "" { // no answer isn't the same answer
		for _, id := range v.differing(m) {
			m.unstable[id] = true
		}
		return m
	}
	if again.Exit != m.run.Exit {
		m.unstable[statusOf(spec.Label)] = true
	}
	for id, o := range m.run.Results {
		if again.Results[id] != o {
			m.unstable[id] = true
		}
	}
	for id := range again.Results {
		if _, ok := m.run.Results[id]; !ok {
			m.unstable[id] = true
		}
	}
	return m
}

// differing lists, sorted, the tests of a check that aren't as recorded and
// matter: new tests that pass don't.
func (v *verifier) differing(m measuredCheck) []string {
	var ids []string
	for id, want := range m.recorded.Results {
		if got, ok := m.run.Results[id]; (!ok || got != want) && !v.flaky(id) {
			ids = append(ids, id)
		}
	}
	for id, got := range m.run.Results {
		if _, ok := m.recorded.Results[id]; !ok && (got == results.Fail || got == results.NotRun) && !v.flaky(id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 && m.statusDiffers() {
		ids = append(ids, statusOf(m.run.Label))
	}
	slices.Sort(ids)
	return ids
}

// statusDiffers tells a command that ends in success where it failed, or the
// other way round. Beside equal tests that is what ran after them, a linter say.
func (m measuredCheck) statusDiffers() bool {
	return m.recorded != nil && (m.recorded.Exit == 0) != (m.run.Exit == 0)
}

// statusOf is how the exit status of a check is told from its tests.
func statusOf(label string) string { return label + " (exit status)" }

// editsByChecks finds what the checks changed in the tree. A person typing
// meanwhile looks the same, and is as inconclusive.
func (v *verifier) editsByChecks(ctx context.Context, before snapshot.State) {
	if v.Runner.Dir != v.Dir {
		return
	}
	after, err := v.Snapshots.Read(ctx, v.Workspace, v.Dir)
	if err != nil {
		return
	}
	for _, path := range DifferingKeys(before.Inner, after.Inner) {
		v.find(Inconclusive, path, "", "content changed", "the check edits files: a repository within the directory changed while it ran")
	}
	if after.Tree == before.Tree {
		return
	}
	changes, err := v.Snapshots.Diff(ctx, before.Repo, before.Tree, after.Tree)
	if err != nil {
		v.find(Inconclusive, "tree", short(before.Tree), short(after.Tree), "the tree changed while the checks ran")
		return
	}
	for _, c := range changes {
		if v.ignored(c.Path) {
			continue
		}
		if v.Live {
			v.find(Inconclusive, c.Path, "", c.Kind, "changed while the checks ran, by them or by the live session")
			continue
		}
		v.find(Inconclusive, c.Path, "", c.Kind, "the check edits files: this changed while it ran")
	}
}

// doneWhen runs the next step's own condition, where that was consented to.
func (v *verifier) doneWhen(ctx context.Context) {
	c := v.Record.Claim
	if c == nil || c.Next == nil || c.Next.DoneWhen == "" {
		return
	}
	if !v.RunDoneWhen {
		v.find(Note, "done_when", "", "not run", "running it needs consent: perdure consent "+v.Workspace)
		return
	}
	run := v.Runner.Run(ctx, CheckSpec{Label: "done_when", Cmd: c.Next.DoneWhen, Results: "exit", Env: v.Env})
	switch {
	case run.Problem != "":
		v.find(Note, "done_when", "", run.Problem, lastLines(run.Tail, "it can't be run"))
	case run.Exit == 0:
		v.find(Note, "done_when", "not done", "done", "next step is already done: "+c.Next.Do)
	}
}

// lastLines is the end of a tail, for a finding's note.
func lastLines(tail, fallback string) string {
	lines := strings.Split(strings.TrimSpace(tail), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	if text := strings.Join(lines, " | "); strings.TrimSpace(text) != "" {
		return fallback + ": " + text
	}
	return fallback
}
